import { expect, test } from '@jest/globals';
import { createByteBudget } from '@wellspring/core/byte-budget';
import { systemClock } from '@wellspring/core/clock';
import { OWNER } from '@wellspring/testing/rows';
import { useHarness } from '@wellspring/testing/service-harness';
import { createCommitGate } from './commit-gate.ts';
import { logCommits } from './log-commits.ts';
import { createOutboxRelay } from './outbox-relay.ts';
import { createOwnerCosts } from './owner-costs.ts';
import { logRecord, type RunContext } from './records.ts';
import { createRunRooms } from './run-room.ts';
import { type CommitOptions, createStateCommits } from './state-commits.ts';

const t = useHarness();

const run: RunContext = {
  run_id: 'run_0000000001',
  source_id: 'dc_0000000001',
  owner_id: OWNER,
  deployment_id: 'd_0000000001',
  source_type: 'MANUAL',
  accepted_at: 0,
};
const options = {
  deployed: { emitter: { owner_id: OWNER }, logsWanted: false },
  hop: 0,
  traceId: 'trace',
  handlesRecords: false,
} as CommitOptions;

test('log lines that are committed during a run are charged to its owner', async () => {
  const commits = createStateCommits(run.source_id, {
    ...t,
    relay: createOutboxRelay(t),
    gate: createCommitGate(t),
  });
  const live = await commits.load();
  const costs = createOwnerCosts(systemClock, () => 0);
  using room = createRunRooms(createByteBudget(1), costs)(OWNER);
  const commitLogs = logCommits({ ...commits, now: systemClock.now }, { live, run, options, room });
  const line = logRecord(run, { ts: 1, level: 'info', msg: 'x'.repeat(16 * 1024) });
  for (let n = 0; n < 20; n += 1) commitLogs(Array(20).fill(line));
  expect(costs.isCostly(OWNER)).toBe(true);
  expect(costs.isSettled(OWNER)).toBe(false);
  await commits.forget();
});

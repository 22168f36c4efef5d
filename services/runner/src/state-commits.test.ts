import { expect, test } from '@jest/globals';
import type { EmittedMessage } from '@wellspring/contract/messages';
import { Unavailable } from '@wellspring/core/unavailable';
import type { Queue } from '@wellspring/queue/port';
import { logRow, OWNER } from '@wellspring/testing/rows';
import { useHarness } from '@wellspring/testing/service-harness';
import { createCommitGate } from './commit-gate.ts';
import type { Part } from './commit-group.ts';
import { createOutboxRelay } from './outbox-relay.ts';
import { createStateCommits } from './state-commits.ts';

const t = useHarness();

const partOf = (run_id: string): Part => ({
  ...{ run_id, trace_id: run_id, hop: 0, events: [], bytes: 0 },
  logs: { ...logRow('dc_1', `1-${run_id}`, { run_id }), records: [] },
  emitted: [{ event_id: `1-${run_id}`, name: '', payload: '1' }],
});

test('messages of commits made while earlier ones are published again follow them', async () => {
  const published: string[] = [];
  const [reached, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let calls = 0;
  const publish: Queue['publish'] = async (_, { payload }) => {
    calls += 1;
    if (calls === 1) throw new Unavailable('no leader');
    if (calls === 2) {
      reached.resolve();
      await answered.promise;
    }
    published.push((JSON.parse(payload) as EmittedMessage).run_id);
  };
  const relay = createOutboxRelay({ ...t, queue: { ...t.queue, publish } });
  const commits = createStateCommits('dc_1', { ...t, relay, gate: createCommitGate(t) });
  const live = await commits.load(1);
  const commit = (run_id: string) => commits.join(live, OWNER, live.row, partOf(run_id));

  await expect(commit('run_1').published).rejects.toThrow('no leader');
  const republished = commits.republish();
  await reached.promise;
  await expect(commit('run_2').published).rejects.toThrow('earlier message');
  answered.resolve();
  await republished;
  expect(commits.isBehind()).toBe(false);
  await commit('run_3').published;
  expect(published).toEqual(['run_1', 'run_2', 'run_3']);
  await relay.close();
});

import { expect, test } from '@jest/globals';
import { CALLS, type CancelCall } from '@wellspring/contract/calls';
import { runningRuns } from '@wellspring/store/collections/running-runs';
import { eventually } from '@wellspring/testing/eventually';
import { usePlatform } from './platform.fixture.ts';

const t = usePlatform();

const WAITING = `export default { name: 'Waiting', async run(event) {
  console.log('before');
  this.$emit('early');
  if (event === 'wait') await new Promise(() => setInterval(() => {}, 1000));
  console.log('after');
} };`;

const cancel = (source_id: string, run_id: string) => {
  const message: CancelCall['message'] = { source_id, run_id };
  return t.call.request(CALLS.cancel, message, { key: source_id, deadlineMs: 10_000 });
};
const running = (emitter_id: string) => t.store.collection(runningRuns).list({ where: { emitter_id } });

test('the log lines of a run can be read before it ends, and are logged once', async () => {
  const id = await t.deploy(WAITING);
  const [run_id] = await t.runAll(id, ['wait']);
  await eventually(async () => expect(await t.lines(id)).toEqual(['before']));
  expect((await t.logs(id))[0]).toMatchObject({ k: 'start', trigger: 'manual', execution_id: run_id });
  await cancel(id, run_id!);
  await t.quiet();
  expect(await t.lines(id)).toEqual(['before']);
});

test('a run that lasts is listed until it ends; a short one never', async () => {
  const id = await t.deploy(WAITING);
  await t.runToEnd(id, ['short']);
  expect(await running(id)).toEqual([]);
  const [run_id] = await t.runAll(id, ['wait']);
  await eventually(async () => expect(await running(id)).toMatchObject([{ id: run_id, trigger: 'manual' }]));
  await cancel(id, run_id!);
  await eventually(async () => expect(await running(id)).toEqual([]));
});

test('runs that wait for earlier ones of their source are not listed', async () => {
  const id = await t.deploy(`export default { name: 'Slow', async run(event) {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    this.$emit(event);
  } };`);
  await t.runAll(id, ['a', 'b', 'c']);
  let most = 0;
  await eventually(
    async () => {
      most = Math.max(most, (await running(id)).length);
      return (await t.events(id)).length === 3;
    },
    { ms: 30_000 },
  );
  expect(most).toBeLessThanOrEqual(1);
}, 40_000);

test('a cancelled run keeps what it emitted, says so in $errors, and the next run starts', async () => {
  const id = await t.deploy(WAITING);
  const [run_id] = await t.runAll(id, ['wait', 'short']);
  await eventually(async () => expect((await running(id)).map((one) => one.id)).toContain(run_id));
  expect(await cancel(id, run_id!)).toEqual({ found: true });
  await t.quiet();
  expect(await t.events(id)).toEqual(['early', 'early']);
  expect(await t.events(id, '$errors')).toMatchObject([
    { original_event: 'wait', error: { code: 'CancelledError', msg: 'The run was cancelled.' } },
  ]);
  const ends = (await t.logs(id)).filter(({ k }) => k === 'end');
  expect(ends).toMatchObject([
    { state: 'cancelled', execution_id: run_id, emitted: 1 },
    { state: 'ok', compute_ms: expect.any(Number), duration_ms: expect.any(Number) },
  ]);
});

test('a cancelled run whose commit fails stays cancelled when it is redelivered', async () => {
  const id = await t.deploy(WAITING);
  const [run_id] = await t.runAll(id, ['wait']);
  await eventually(async () => expect((await running(id)).map((one) => one.id)).toContain(run_id));
  const commits = t.refuseCommit();
  await cancel(id, run_id!);
  await t.quiet();
  expect(commits()).toBeGreaterThan(1);
  expect((await t.logs(id)).filter(({ k }) => k === 'end')).toMatchObject([{ state: 'cancelled' }]);
});

test('a run that has ended or does not exist cannot be cancelled', async () => {
  const id = await t.deploy(WAITING);
  const [run_id] = await t.runToEnd(id, ['short']);
  expect(await cancel(id, run_id!)).toEqual({ found: false });
  expect(await cancel(id, 'run_0000000000')).toEqual({ found: false });
});

test('a run that is interrupted by a failed commit is repeated and listed once', async () => {
  const id = await t.deploy(WAITING);
  t.refuseCommit();
  await t.runToEnd(id, ['short']);
  expect(await t.events(id)).toEqual(['early']);
  expect((await t.logs(id)).filter(({ k }) => k === 'end')).toHaveLength(1);
});

test('a redelivered run that a crashed process has listed is no longer listed when it ends', async () => {
  const id = await t.deploy(WAITING);
  const trigger = { kind: 'manual', payload: '"short"' } as const;
  const runs = ['run_repeated', 'run_committed'];
  await t.triggerToEnd(id, trigger, { run_id: 'run_committed' });
  const row = { emitter_id: id, trigger: 'manual', started_at_ms: 0 } as const;
  await t.store.collection(runningRuns).insertMany(runs.map((run) => ({ id: run, ...row })));
  for (const run_id of runs) await t.triggerToEnd(id, trigger, { run_id, redelivered: true });
  await eventually(async () => expect(await running(id)).toEqual([]));
});

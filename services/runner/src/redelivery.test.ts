import { expect, test } from '@jest/globals';
import { formatOrderingKey } from '@wellspring/core/ordering-key';
import { outbox } from '@wellspring/store/collections/outbox';
import { states } from '@wellspring/store/collections/states';
import { eventually } from '@wellspring/testing/eventually';
import { COUNTING, ECHO, usePlatform } from './platform.fixture.ts';

const t = usePlatform();

const publish = (sourceId: string, jobs: readonly { run_id: string; value: unknown }[]) =>
  Promise.all(
    jobs.map(({ run_id, value }) =>
      t.trigger(sourceId, { kind: 'manual', payload: JSON.stringify(value) }, { run_id }),
    ),
  );

test('the runs of a message that was published twice execute once, however many they are', async () => {
  const id = await t.deploy(COUNTING);
  const jobs = Array.from({ length: 300 }, (_, n) => ({ run_id: `run_0f-${n}`, value: n }));
  await publish(id, jobs);
  await publish(id, [...jobs, { run_id: 'run_1f-0', value: 'next' }]);
  await t.quiet();
  expect(await t.events(id)).toEqual([...jobs.map((_, n) => [n, n + 1]), ['next', 301]]);
});

test('a run that is twice in a batch executes once', async () => {
  const id = await t.deploy(COUNTING);
  const values = ['first', 'twice', 'twice', 'last'];
  await publish(
    id,
    values.map((value) => ({ run_id: `run_${value}`, value })),
  );
  await t.quiet();
  expect(await t.events(id)).toEqual([
    ['first', 1],
    ['twice', 2],
    ['last', 3],
  ]);
  expect((await t.store.collection(states).get(id))!.db).toEqual({ n: '3' });
});

test('a known run between two new ones does not let the later one commit first', async () => {
  const id = await t.deploy(`export default { name: 'Greatest', dedupe: 'greatest', run([from, to]) {
    for (let n = from; n < to; n++) this.$emit(n, { id: n });
  } };`);
  const known = { run_id: 'run_known', value: [0, 1] };
  await publish(id, [known]);
  await t.quiet();
  // Thousands of events are prepared in pieces, with pauses in which the later run could commit.
  await publish(id, [
    { run_id: 'run_many', value: [1, 5000] },
    known,
    { run_id: 'run_one', value: [5000, 5001] },
  ]);
  await t.quiet();
  expect(await t.events(id)).toEqual(Array.from({ length: 5001 }, (_, n) => n));
});

test('a run of one shard executes once when redelivered after many runs of the other shards', async () => {
  const id = await t.deploy(ECHO, { concurrency: 2 });
  const publishTo = (shard: number, values: readonly string[]) =>
    t.queue.publishMany(
      'runs',
      values.map((value) => {
        const trigger = { kind: 'manual', payload: JSON.stringify(value) };
        const job = { v: 1, type: 'run', run_id: `run_${value}`, source_id: id, trigger, hop: 0 };
        return {
          key: formatOrderingKey({ sourceId: id, shard }),
          payload: JSON.stringify({ ...job, trace_id: '', accepted_at: 0 }),
        };
      }),
    );
  await publishTo(1, ['slow']);
  await t.quiet();
  await publishTo(
    0,
    Array.from({ length: 300 }, (_, n) => `quick${n}`),
  );
  await t.quiet();
  await publishTo(1, ['slow']);
  await t.quiet();
  const events = await t.events(id);
  expect(events).toHaveLength(301);
  expect(new Set(events).size).toBe(301);
});

/** Runs without effects besides the first execution, which is counted by the code. */
const SILENT = `export default { name: 'Silent', props: { db: '$.service.db' }, run(event) {
  this.db.set('runs', (this.db.get('runs') ?? 0) + 1);
} };`;

test.each([
  ['with', COUNTING],
  ['without', SILENT],
])('a redelivered run %s events executes once, however late', async (_, code) => {
  const id = await t.deploy(code);
  const runs = async () => (await t.logs(id)).filter(({ k }) => k === 'end').length;
  await publish(id, [{ run_id: 'run_first-0', value: 'first' }]);
  await publish(
    id,
    Array.from({ length: 300 }, (_, n) => ({ run_id: `run_${n}`, value: n })),
  );
  await t.quiet();
  // Later than what the runner remembers, also after a restart.
  t.ahead = 600_000;
  await publish(id, [{ run_id: 'run_late', value: 'late' }]);
  await t.quiet();
  const trigger = { kind: 'manual', payload: '"first"' } as const;
  await t.triggerToEnd(id, trigger, { run_id: 'run_first-0', redelivered: true });
  expect(await runs()).toBe(302);
  await t.restart();
  await t.trigger(id, trigger, { run_id: 'run_first-0', accepted_at: Date.now() });
  await t.triggerToEnd(id, trigger, { run_id: 'run_299', redelivered: true });
  expect(await runs()).toBe(302);
});

test('a redelivered run executes although another source has committed one of the same id', async () => {
  const ids = [await t.deploy(COUNTING), await t.deploy(COUNTING)] as const;
  const trigger = { kind: 'manual', payload: '"one"' } as const;
  await t.triggerToEnd(ids[0], trigger, { run_id: 'run_same' });
  await t.triggerToEnd(ids[1], trigger, { run_id: 'run_same', redelivered: true });
  for (const id of ids) expect(await t.events(id)).toEqual([['one', 1]]);
});

test('a message published by the sweep is flagged as redelivered', async () => {
  const id = await t.deploy(COUNTING);
  const left = {
    v: 1,
    type: 'emitted',
    run_id: 'run_left',
    emitter_id: id,
    owner_id: 'u_1',
    hop: 0,
    events: [],
  };
  await t.store.collection(outbox).insert({
    id: 'run_left',
    emitter_id: id,
    created_at_ms: 0,
    message: JSON.stringify(left),
  });
  await t.restart();
  await t.outboxIsEmpty();
  await t.quiet();
  expect(t.published).toContainEqual({ ...left, redelivered: true });
});

test('a redelivered run publishes the row of its commit group, which has the id of another part', async () => {
  const id = await t.deploy(COUNTING);
  const trigger = { kind: 'manual', payload: '"first"' } as const;
  await t.triggerToEnd(id, trigger, { run_id: 'run_a' });
  const left = {
    ...{ v: 1, type: 'emitted', run_id: 'run_a/logs/5-0', emitter_id: id, owner_id: 'u_1', hop: 0 },
    events: [],
  };
  await t.store.collection(outbox).insert({
    ...{ id: left.run_id, emitter_id: id },
    // Too young for the sweep.
    created_at_ms: Date.now() + 60_000,
    message: JSON.stringify(left),
  });
  await t.trigger(id, trigger, { run_id: 'run_a', redelivered: true });
  await t.outboxIsEmpty();
  expect(t.published).toContainEqual({ ...left, redelivered: true });
});

test('a published outbox row that could not be removed is removed when the store is back', async () => {
  const id = await t.deploy(COUNTING);
  expect(await t.store.collection(outbox).count()).toBe(0);
  await t.db.write(() =>
    t.db.exec(
      "CREATE TEMP TRIGGER full BEFORE DELETE ON c_outbox BEGIN SELECT RAISE(ABORT, 'the disk is full'); END",
    ),
  );
  await publish(id, [{ run_id: 'run_a', value: 1 }]);
  await eventually(() => t.published.length === 1);
  expect(await t.store.collection(outbox).count()).toBe(1);
  await t.db.write(() => t.db.exec('DROP TRIGGER full'));
  await t.outboxIsEmpty();
  expect(t.published).toHaveLength(1);
});

test('a runner that stops executes no further runs of a batch; they are executed once after a restart', async () => {
  const id = await t.deploy(COUNTING);
  const values = Array.from({ length: 40 }, (_, n) => n);
  let restarted: Promise<void> | undefined;
  let executed = 0;
  t.faults.execute = () => {
    executed += 1;
    restarted ??= t.restart();
  };
  await t.runAll(id, values);
  await eventually(() => restarted !== undefined);
  const before = await restarted!.then(() => executed);
  await t.quiet();
  expect(await t.events(id)).toEqual(values.map((n) => [n, n + 1]));
  expect(executed).toBe(values.length);
  expect(before).toBeLessThan(values.length / 2);
});

import { expect, test } from '@jest/globals';
import { states } from '@wellspring/store/collections/states';
import { usePlatform } from './platform.kit.ts';

const t = usePlatform();

const COUNTING = `export default { name: 'Counting', props: { db: '$.service.db' }, run(event) {
  const n = (this.db.get('n') ?? 0) + 1;
  this.db.set('n', n);
  this.$emit([event, n]);
} };`;

const publish = (sourceId: string, jobs: readonly { run_id: string; value: unknown }[]) =>
  Promise.all(
    jobs.map(({ run_id, value }) =>
      t.trigger(sourceId, { kind: 'manual', payload: JSON.stringify(value) }, { run_id }),
    ),
  );

test('the runs of an announcement that was made twice run once, however many they are', async () => {
  const id = await t.deploy(COUNTING);
  const jobs = Array.from({ length: 300 }, (_, n) => ({ run_id: `run_0f-${n}`, value: n }));
  await publish(id, jobs);
  await publish(id, [...jobs, { run_id: 'run_1f-0', value: 'next' }]);
  await t.quiet();
  expect(await t.events(id)).toEqual([...jobs.map((_, n) => [n, n + 1]), ['next', 301]]);
});

test('a run that stands twice in a batch is carried out once', async () => {
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

test('a run of one lane that is handed out again after many runs of the others runs once', async () => {
  const id = await t.deploy(`export default { name: 'Echo', run(event) { this.$emit(event); } };`, {
    concurrency: 2,
  });
  const publishTo = (lane: number, values: readonly string[]) =>
    t.queue.publishMany(
      'runs',
      values.map((value) => {
        const trigger = { kind: 'manual', payload: JSON.stringify(value) };
        const job = { v: 1, type: 'run', run_id: `run_${value}`, source_id: id, trigger, hop: 0 };
        return { key: `${id}#${lane}`, payload: JSON.stringify({ ...job, trace_id: '', accepted_at: 0 }) };
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

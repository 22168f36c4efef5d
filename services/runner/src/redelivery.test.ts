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

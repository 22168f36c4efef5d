import { expect, test } from '@jest/globals';
import type { DbJob } from '@wellspring/contract/messages';
import { newRunId } from '@wellspring/core/ids';
import { sources } from '@wellspring/store/collections/sources';
import { states } from '@wellspring/store/collections/states';
import { numbers } from '@wellspring/testing/numbers';
import { usePlatform } from './platform.fixture.ts';

const t = usePlatform();

const COUNTING = `export default { name: 'Counting', props: { db: '$.service.db' }, run() {
  const n = (this.db.get('n') ?? 0) + 1;
  this.db.set('n', n);
  this.$emit([n, this.db.get('other')]);
} };`;

const dbOf = async (id: string) => (await t.store.collection(states).get(id))?.db;

/** Publishes the job; resolves with the reply. */
async function replaceDb(source_id: string, db: Record<string, string>, run_id = newRunId()) {
  const reply = t.call.openReplyAddress();
  const job: DbJob = { v: 1, type: 'db', run_id, source_id, db, reply_to: reply.address };
  await t.queue.publish('runs', { key: source_id, payload: JSON.stringify(job) });
  return reply.receive(20_000).finally(() => reply.close());
}

test('a replaced $service.db is seen by later runs, not by those accepted before', async () => {
  const id = await t.deploy(COUNTING);
  await t.runAll(id, [1, 2, 3]);
  expect(await replaceDb(id, { n: '100', other: '"x"' })).toEqual({ kind: 'none' });
  expect(await dbOf(id)).toEqual({ n: '100', other: '"x"' });
  await t.runToEnd(id, [4, 5]);
  expect(await t.events(id)).toEqual([
    [1, null],
    [2, null],
    [3, null],
    [101, 'x'],
    [102, 'x'],
  ]);
});

test('an empty map removes all keys, also from a warm process', async () => {
  const id = await t.deploy(COUNTING);
  await t.runAll(id, [1]);
  await replaceDb(id, {});
  expect(await dbOf(id)).toEqual({});
  await t.runToEnd(id, [2]);
  expect(await t.events(id)).toEqual([
    [1, null],
    [1, null],
  ]);
});

test('a change that is delivered twice applies once', async () => {
  const id = await t.deploy(COUNTING);
  await replaceDb(id, { n: '5' }, 'run_0000000001');
  await t.runToEnd(id, [1]);
  expect(await replaceDb(id, { n: '5' }, 'run_0000000001')).toEqual({ kind: 'none' });
  expect(await dbOf(id)).toEqual({ n: '6' });
});

test('a change that is redelivered after hundreds of runs, and after a restart, applies once', async () => {
  const id = await t.deploy(COUNTING);
  await replaceDb(id, { n: '5' }, 'run_0000000001');
  await t.runToEnd(id, numbers(300));
  expect(await replaceDb(id, { n: '5' }, 'run_0000000001')).toEqual({ kind: 'none' });
  await t.restart();
  expect(await replaceDb(id, { n: '5' }, 'run_0000000001')).toEqual({ kind: 'none' });
  expect(await dbOf(id)).toEqual({ n: '305' });
});

test('an inactive source can be changed, a deleted one is refused', async () => {
  const id = await t.deploy(COUNTING);
  await t.store.collection(sources).patch(id, { active: false });
  expect(await replaceDb(id, { n: '5' })).toEqual({ kind: 'none' });
  expect(await dbOf(id)).toEqual({ n: '5' });
  await t.store.collection(sources).remove(id);
  expect(await replaceDb(id, {})).toEqual({ kind: 'refused' });
});

import { expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { removeEmitter } from '@wellspring/runtime/remove-emitter';
import { logs } from '@wellspring/store/collections/events';
import { deployments } from '@wellspring/store/collections/sources';
import { states } from '@wellspring/store/collections/states';
import { eventually } from '@wellspring/testing/eventually';
import { numbers } from '@wellspring/testing/numbers';
import { usePlatform } from './platform.fixture.ts';

const t = usePlatform();

test('a source that is deleted while its deployment is loaded does not run, and leaves no rows', async () => {
  const id = await t.deploy(`export default { name: 'Late', async run(event) { this.$emit(event); } };`);
  const rows = t.store.collection(deployments);
  const { get } = rows;
  const [reading, deleted] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  rows.get = async (key) => {
    const row = await get(key);
    reading.resolve();
    await deleted.promise;
    return row;
  };
  await t.runAll(id, ['late']);
  await reading.promise;
  await removeEmitter({ ...t, log: silentLog }, id);
  deleted.resolve();
  await t.quiet();
  expect(await t.store.collection(states).get(id)).toBeUndefined();
  expect(await t.events(id)).toEqual([]);
  expect(await t.store.collection(logs).list({ where: { emitter_id: id } })).toEqual([]);
});

test('a caller that waits behind long runs is answered when its source is deleted, and the jobs are dropped', async () => {
  const id = await t.deploy(`export default { name: 'Long', async run() {
    this.$emit(1);
    await new Promise(() => setInterval(() => {}, 60_000));
  } };`);
  const replies = t.call.openReplyAddress();
  await t.runAll(id, numbers(1_000));
  await t.runAll(id, ['waits'], { reply_to: replies.address });
  await eventually(async () => (await t.gauge('wellspring_run_permits_held')) === 1);
  await removeEmitter({ ...t, log: silentLog }, id);
  expect(await replies.receive(5_000)).toEqual({ kind: 'refused' });
  await t.quiet();
  expect(await t.events(id)).toEqual([]);
  expect(await t.queue.deadLetters.count()).toBe(0);
});

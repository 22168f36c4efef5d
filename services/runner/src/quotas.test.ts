import { beforeEach, expect, test } from '@jest/globals';
import { users } from '@wellspring/store/collections/users';
import { eventually } from '@wellspring/testing/eventually';
import { userRow } from '@wellspring/testing/rows';
import { usePlatform } from './platform.fixture.ts';
import { deployWorkflow } from './workflow.fixture.ts';

const t = usePlatform();

const LISTENING = `export default { name: 'Listening', run(event) { this.$emit(event); } };`;
const trigger = {
  kind: 'event' as const,
  payload: '1',
  emitter_id: 'dc_0000000001',
  event_id: '1-0',
  event_name: '',
};

/** Emitters whose owner has used up the quota. */
const emitters = {
  source: () => t.deploy(LISTENING),
  workflow: async () => (await deployWorkflow(t, '$.send.emit(1);')).id,
};

beforeEach(async () => {
  await t.store.collection(users).insert(userRow({ daily_invocations_quota: 0 }));
});

test.each(['source', 'workflow'] as const)(
  'runs of a %s for events are skipped over the quota, with one record in $errors',
  async (kind) => {
    const id = await emitters[kind]();
    await t.trigger(id, trigger);
    await t.triggerToEnd(id, { ...trigger, event_id: '1-1' });
    expect(await t.events(id)).toEqual([]);
    expect((await t.logs(id)).filter(({ level }) => level === 'warn')).toEqual(
      ['1-0', '1-1'].map((event) =>
        expect.objectContaining({
          msg: `The run for the event ${event} of dc_0000000001 was skipped. The daily quota of 0 invocations is used up.`,
        }),
      ),
    );
    await eventually(async () => (await t.events(id, '$errors')).length === 1);
  },
);

test('a run that an accepted call waits for is executed over the quota', async () => {
  const id = await emitters.workflow();
  await t.triggerToEnd(id, trigger, { reply_to: 'nobody' });
  expect(await t.events(id)).toEqual([1]);
});

test('a run that was accepted before is executed over the quota', async () => {
  const id = await emitters.source();
  await t.runToEnd(id, [1]);
  expect(await t.events(id)).toEqual([1]);
});

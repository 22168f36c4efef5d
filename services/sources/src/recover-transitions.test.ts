import { expect, test } from '@jest/globals';
import { HOOK_DEADLINE_MS } from '@wellspring/contract/calls';
import { Unavailable } from '@wellspring/core/unavailable';
import {
  deployments,
  endpoints,
  type SourceRow,
  sources,
  timers,
} from '@wellspring/store/collections/sources';
import { states } from '@wellspring/store/collections/states';
import { MAX_STEP_MS } from './hooks.ts';
import { code, createTestbed, HTTP, type Testbed, TIMER } from './platform.fixture.ts';

const ONE = code({ props: [HTTP, TIMER], version: 'one' });
const TWO = code({ props: [{ ...HTTP, name: 'web' }, TIMER], version: 'two' });
const CHANGE = { component_code: TWO, name: 'Two', configured_props: { timer: { intervalSeconds: 60 } } };

/** Lets the process die at its first, second, … write of an operation, and looks at the data after a restart. */
async function dyingEverywhere(
  prepare: (bed: Testbed) => Promise<string>,
  operation: (bed: Testbed, sourceId: string) => Promise<unknown>,
  check: (bed: Testbed, sourceId: string, completed: boolean) => Promise<void>,
): Promise<number> {
  for (let writes = 0; ; writes++) {
    const bed = await createTestbed();
    try {
      const id = await prepare(bed);
      bed.hooks.length = 0;
      bed.dieAfter(writes);
      const completed = await operation(bed, id).then(
        () => true,
        () => false,
      );
      const { dead } = bed;
      await bed.restart();
      await check(bed, id, completed);
      if (!dead) return writes;
    } finally {
      await bed.close();
    }
  }
}

const created = async (bed: Testbed) =>
  (await bed.invoke<{ id: string }>('createSource', {}, { component_code: ONE, name: 'One' })).id;

/** A source whose rows fit together: one deployment, its interfaces, and activate as the last that was heard. */
async function expectWhole(bed: Testbed, id: string): Promise<SourceRow> {
  const { source, deployments, endpoints, timers } = await bed.rowsOf(id);
  expect(source).toMatchObject({ status: 'live', transition: null });
  expect(deployments.map((row) => row.id)).toContain(source!.deployment_id);
  const current = deployments.find((row) => row.id === source!.deployment_id)!;
  expect(current.component_id).toBe(source!.component_id);
  const props = current.definition.props
    .filter(({ type }) => type === '$.interface.http')
    .map(({ name }) => name);
  expect(endpoints.map(({ prop, active }) => [prop, active])).toEqual(
    props.map((prop) => [prop, source!.active]),
  );
  const { intervalSeconds } = current.configured_props.timer as { intervalSeconds: number };
  expect(timers.map((row) => [row.interval_seconds, row.due_at !== null])).toEqual([
    [intervalSeconds, source!.active],
  ]);
  if (source!.active && bed.hooks.length > 0)
    expect(bed.hooks.at(-1)).toBe(`activate ${source!.deployment_id}`);
  return source!;
}

test('a creation that was cut off anywhere leaves nothing behind', async () => {
  const moments = await dyingEverywhere(
    async () => '',
    created,
    async (bed, _id, completed) => {
      const rows = await bed.store.collection(sources).list();
      if (completed) await expectWhole(bed, rows[0]!.id);
      for (const row of rows) await expectWhole(bed, row.id);
      if (rows.length > 0) return;
      for (const each of [deployments, endpoints, timers]) {
        expect(await bed.store.collection(each as typeof deployments).count()).toBe(0);
      }
    },
  );
  expect(moments).toBeGreaterThan(4);
});

test('an update that was cut off anywhere is either done or undone, as a whole', async () => {
  const outcomes = new Set<string>();
  const moments = await dyingEverywhere(
    created,
    (bed, id) => bed.invoke('updateSource', { id }, CHANGE),
    async (bed, id, completed) => {
      const source = await expectWhole(bed, id);
      if (completed) expect(source.name).toBe('Two');
      expect([source.name, source.name_slug]).toEqual(
        source.name === 'Two' ? ['Two', 'two'] : ['One', 'one'],
      );
      outcomes.add(source.name);
      // Nothing is in the way of the next update, which clears what was left of the former.
      await bed.invoke(
        'updateSource',
        { id },
        { component_code: code({ props: [TIMER], version: 'three' }) },
      );
      expect((await bed.rowsOf(id)).deployments).toHaveLength(1);
    },
  );
  expect(moments).toBeGreaterThan(8);
  expect([...outcomes].sort()).toEqual(['One', 'Two']);
});

test('a toggle that was cut off anywhere is either done or undone', async () => {
  const outcomes = new Set<boolean>();
  await dyingEverywhere(
    created,
    (bed, id) => bed.invoke('updateSource', { id }, { active: false }),
    async (bed, id, completed) => {
      const { active } = await expectWhole(bed, id);
      if (completed) expect(active).toBe(false);
      outcomes.add(active);
    },
  );
  expect(outcomes.size).toBe(2);
});

/** Writes the state, as a run in progress does. */
const commit = async (bed: Testbed, id: string) =>
  void (await bed.store.collection(states).insertMany([{ id, epoch: 0, db: {}, dedupe: {}, last_ids: {} }]));

test('a deletion that was cut off is completed once it had begun', async () => {
  const outcomes = new Set<boolean>();
  await dyingEverywhere(
    (bed) => {
      bed.onForget((id) => commit(bed, id));
      return created(bed);
    },
    (bed, id) => bed.invoke('deleteSource', { id }, {}),
    async (bed, id, completed) => {
      const { source, ...rest } = await bed.rowsOf(id);
      expect(await bed.store.collection(states).get(id)).toBeUndefined();
      outcomes.add(source !== undefined);
      if (source) {
        expect(completed).toBe(false);
        expect(source.status).toBe('live');
      } else {
        expect(rest).toEqual({ deployments: [], endpoints: [], timers: [] });
      }
    },
  );
  expect(outcomes.size).toBe(2);
});

test('a deletion during which the runner did not answer is completed when it does', async () => {
  const bed = await createTestbed();
  const id = await created(bed);
  bed.onForget(async () => {
    throw new Error('no answer');
  });
  await bed.invoke('deleteSource', { id }, {});
  await expect(bed.invoke('getSource', { id }, {})).rejects.toMatchObject({ status: 404 });
  await commit(bed, id);
  bed.onForget(async () => {});
  await bed.recover();
  expect((await bed.rowsOf(id)).source).toBeUndefined();
  expect(await bed.store.collection(states).get(id)).toBeUndefined();
  await bed.close();
});

test('a transition in progress in this process is not recovered', async () => {
  const bed = await createTestbed();
  let release = () => {};
  const hookBegan = new Promise<void>((begun) => {
    bed.onHook(() => {
      begun();
      return new Promise<void>((done) => {
        release = done;
      });
    });
  });
  const creating = created(bed);
  await hookBegan;
  const before = await bed.store.collection(sources).list();
  await bed.recover();
  expect(await bed.store.collection(sources).list()).toEqual(before);
  bed.onHook(() => {});
  release();
  await expectWhole(bed, await creating);
  await bed.close();
});

test('a transition that ended during the recovery of another one is not changed', async () => {
  const bed = await createTestbed();
  const deploy = { began: Promise.withResolvers<string>(), end: Promise.withResolvers<void>() };
  const activate = { began: Promise.withResolvers<void>(), end: Promise.withResolvers<void>() };
  bed.onHook((hook, _deployment, sourceId) => {
    if (hook !== 'deploy') return;
    deploy.began.resolve(sourceId);
    return deploy.end.promise;
  });
  const creating = created(bed);
  const id = await deploy.began.promise;
  // One that a crash left in the middle of an update, and whose recovery takes its time.
  bed.onHook(() => {});
  const left = await created(bed);
  const { source } = await bed.rowsOf(left);
  const transition = { id: 'left', until: 0, revert: source!, next: source!.deployment_id };
  await bed.store.collection(sources).patch(left, { status: 'updating', transition });
  bed.onHook((_hook, _deployment, sourceId) => {
    if (sourceId !== left) return;
    activate.began.resolve();
    return activate.end.promise;
  });
  const recovering = bed.recover();
  await activate.began.promise;
  deploy.end.resolve();
  await creating;
  activate.end.resolve();
  await recovering;
  for (const one of [id, left]) expect((await bed.rowsOf(one)).source).toMatchObject({ status: 'live' });
  await bed.close();
});

test('another process undoes an update that was cut off once its hook cannot be in progress', async () => {
  const bed = await createTestbed('distributed');
  const id = await created(bed);
  const activate = bed.holdHook('activate');
  const updating = bed.invoke('updateSource', { id }, CHANGE);
  await activate.begun;
  const status = async () => (await bed.rowsOf(id)).source!.status;
  bed.dieAfter(0);
  activate.end();
  await expect(updating).rejects.toThrow('dead');
  await bed.restart();
  expect(await status()).toBe('updating');
  bed.pass(HOOK_DEADLINE_MS);
  await bed.recover();
  expect(await status()).toBe('updating');
  bed.pass(MAX_STEP_MS - HOOK_DEADLINE_MS);
  await bed.recover();
  expect(await expectWhole(bed, id)).toMatchObject({ name: 'One', active: true });
  await bed.close();
});

test.each([
  ['later', 18],
  ['without it after many attempts', 20],
])(
  'an update whose former code cannot be activated, since the runner fails, is reverted %s',
  async (_when, attempts) => {
    const bed = await createTestbed();
    const id = await created(bed);
    bed.onHook((hook) => {
      if (hook === 'activate') throw new Unavailable('The runner is being replaced.');
    });
    await expect(bed.invoke('updateSource', { id }, CHANGE)).rejects.toMatchObject({ name: 'CallFailed' });
    for (let n = 1; n < attempts; n++) await bed.recover();
    const isLive = attempts === 20;
    expect((await bed.rowsOf(id)).source).toMatchObject({ status: isLive ? 'live' : 'updating' });
    if (!isLive) bed.onHook(() => {});
    await bed.recover();
    expect(await expectWhole(bed, id)).toMatchObject({ name: 'One', active: true });
    await bed.close();
  },
);

test('each hook of an update has its whole time', async () => {
  const bed = await createTestbed('distributed');
  const id = await created(bed);
  const deactivate = bed.holdHook('deactivate');
  const updating = bed.invoke<{ name: string }>('updateSource', { id }, CHANGE);
  await deactivate.begun;
  bed.pass(HOOK_DEADLINE_MS);
  const activate = bed.holdHook('activate');
  deactivate.end();
  await activate.begun;
  bed.pass(HOOK_DEADLINE_MS);
  await bed.recoverElsewhere();
  activate.end();
  expect((await updating).name).toBe('Two');
  await expectWhole(bed, id);
  await bed.close();
});

test('a creation that another process ends after its recovery has read it stays', async () => {
  const bed = await createTestbed();
  const deploy = bed.holdHook('deploy');
  const creating = bed.invokeElsewhere<{ id: string }>('createSource', {}, { component_code: ONE });
  await deploy.begun;
  bed.onNextWrite(async () => {
    deploy.end();
    await creating;
  });
  await bed.recover();
  const { id } = await creating;
  expect((await bed.rowsOf(id)).source).toMatchObject({ status: 'live' });
  await bed.close();
});

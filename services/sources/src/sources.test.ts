import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { components } from '@wellspring/store/collections/components';
import { deleteSourceRows } from '@wellspring/store/collections/delete-source';
import { deployments, endpoints, sources, timers } from '@wellspring/store/collections/sources';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { ALICE, BOB, seal, user } from '@wellspring/testing/service-harness';
import { code, createTestbed, HTTP, type Testbed, TIMER } from './platform.fixture.ts';

interface Shown {
  id: string;
  component_id: string;
  name: string;
  name_slug: string;
  active: boolean;
  configured_props: Record<string, Record<string, unknown> & string>;
}

let bed: Testbed;
beforeEach(() => {
  bed = createTestbed();
});
afterEach(() => bed.close());

const create = (input: Record<string, unknown> = {}, principal = ALICE) =>
  bed.invoke<Shown>('createSource', {}, { component_code: code(), ...input }, principal);
const update = (id: string, input: Record<string, unknown>, principal = ALICE) =>
  bed.invoke<Shown>('updateSource', { id }, input, principal);
const read = (id: string, principal = ALICE) => bed.invoke<Shown>('getSource', { id }, {}, principal);
const names = () => bed.hooks.map((line) => line.split(' ')[0]);
const leftovers = async () => {
  const counts = [sources, deployments, endpoints, timers].map((each) =>
    bed.store.collection(each as typeof sources).count(),
  );
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
};

describe('creating a source', () => {
  test('runs deploy, then activate, with the interfaces live and the source unseen', async () => {
    const seen: unknown[] = [];
    bed.onHook(async (hook, _deployment, id) => {
      const { source, endpoints: rows, timers: ticking } = await bed.rowsOf(id);
      const list = await bed.invoke<{ total_count: number }>('listMySources', {}, {});
      await expect(read(id)).rejects.toMatchObject({ status: 404 });
      seen.push([hook, source?.active, rows[0]?.active, ticking[0]?.due_at !== null, list.total_count]);
    });
    const made = await create({ component_code: code({ props: [HTTP, TIMER] }) });
    expect(seen).toEqual([
      ['deploy', true, true, true, 0],
      ['activate', true, true, true, 0],
    ]);
    expect(await read(made.id)).toEqual(made);
    expect(made.configured_props.http).toEqual({
      endpoint_url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:3000\/e\/e[a-z2-7]{32}$/),
    });
  });

  test.each(['deploy', 'activate'])('if the %s hook throws, it leaves nothing behind', async (broken) => {
    bed.onHook((hook) => {
      if (hook === broken) throw new Error('the key is wrong');
    });
    await expect(create({ component_code: code({ props: [HTTP, TIMER] }) })).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining('the key is wrong'),
    });
    expect(await leftovers()).toBe(0);
  });

  test('refuses actions, unknown components and wrong values before any hook runs', async () => {
    await expect(create({ component_code: code({ type: 'action' }) })).rejects.toMatchObject({ status: 400 });
    await expect(create({ component_code: null })).rejects.toMatchObject({
      status: 400,
      param: 'component_id',
    });
    const props = [{ name: 'count', type: 'integer' }];
    await expect(
      create({ component_code: code({ props }), configured_props: { count: 'many' } }),
    ).rejects.toMatchObject({ status: 400, param: 'configured_props.count' });
    await expect(create({ name: '  ' })).rejects.toMatchObject({ status: 400, param: 'name' });
    expect(bed.hooks).toEqual([]);
    expect(await leftovers()).toBe(0);
  });

  test('gives each source of an owner a slug of its own, however many are made at once', async () => {
    await Promise.all(Array.from({ length: 12 }, () => create({ name: 'Foo Bar' })));
    const rows = await bed.store.collection(sources).list({ order: 'asc' });
    expect(rows.map(({ name_slug }) => name_slug).sort()).toEqual(
      ['foo-bar', ...Array.from({ length: 11 }, (_, i) => `foo-bar-${i + 1}`)].sort(),
    );
    expect((await create({ name: 'Foo Bar' }, BOB)).name_slug).toBe('foo-bar');
    expect((await create({ name: 'Foo Bar', org_id: 'o_0000000001' })).name_slug).toBe('foo-bar');
  });

  test('stores secrets sealed and shows them never', async () => {
    const props = [{ name: 'token', type: 'string', secret: true }];
    const made = await create({ component_code: code({ props }), configured_props: { token: 'hush hush' } });
    expect(made.configured_props.token).toBe('********');
    const [row] = (await bed.rowsOf(made.id)).deployments;
    expect(JSON.stringify(row)).not.toContain('hush');
    expect(seal.open(String(row!.configured_props.token), made.id)).toBe('hush hush');
    await update(made.id, { configured_props: { token: '********' } });
    const [kept] = (await bed.rowsOf(made.id)).deployments;
    expect(seal.open(String(kept!.configured_props.token), made.id)).toBe('hush hush');
  });
});

describe('updating a source', () => {
  test('new code: deactivate of the old, activate of the new, which runs already; endpoint and beat stay', async () => {
    const made = await create({ component_code: code({ props: [HTTP, TIMER] }) });
    const before = await bed.rowsOf(made.id);
    bed.hooks.length = 0;
    const running: string[] = [];
    bed.onHook(async (_hook, _deployment, id) => {
      running.push((await bed.rowsOf(id)).source!.deployment_id);
    });
    const next = await update(made.id, { component_code: code({ props: [HTTP, TIMER], version: '2' }) });
    const after = await bed.rowsOf(made.id);
    const [old, now] = [before.source!.deployment_id, after.source!.deployment_id];
    expect(bed.hooks).toEqual([`deactivate ${old}`, `activate ${now}`]);
    expect(running).toEqual([old, now]);
    expect(next.component_id).not.toBe(made.component_id);
    expect([after.endpoints, after.timers]).toEqual([before.endpoints, before.timers]);
    expect(after.deployments.map(({ id }) => id)).toEqual([now]);
  });

  test('a hook that throws brings name and slug back, also when another source wants the slug meanwhile', async () => {
    const made = await create({ name: 'Wanted' });
    bed.onHook(async (hook, _deployment, id) => {
      if (hook !== 'activate' || id !== made.id) return;
      bed.onHook(() => {});
      expect((await create({ name: 'Wanted' })).name_slug).toBe('wanted-1');
      throw new Error('no');
    });
    const change = { component_code: code({ props: [HTTP], version: 'renamed' }), name: 'Changed' };
    await expect(update(made.id, change)).rejects.toMatchObject({ status: 400 });
    const { source } = await bed.rowsOf(made.id);
    expect(source).toMatchObject({ name: 'Wanted', name_slug: 'wanted', status: 'live', transition: null });
  });

  test('an endpoint whose prop is gone goes with it; a new one is made', async () => {
    const made = await create({ component_code: code({ props: [HTTP] }) });
    const { configured_props } = await update(made.id, {
      component_code: code({ props: [{ ...HTTP, name: 'web' }] }),
    });
    expect(Object.keys(configured_props)).toEqual(['web']);
    expect((await bed.rowsOf(made.id)).endpoints.map(({ prop }) => prop)).toEqual(['web']);
  });

  test('toggles run their hook, disable and enable the interfaces; no change runs none', async () => {
    const made = await create({ component_code: code({ props: [HTTP, TIMER] }) });
    bed.hooks.length = 0;
    const live = async () => {
      const {
        endpoints: [endpoint],
        timers: [timer],
      } = await bed.rowsOf(made.id);
      return [endpoint!.active, timer!.due_at !== null];
    };
    for (const active of [true, false, false]) await update(made.id, { active });
    expect([names(), await live()]).toEqual([['deactivate'], [false, false]]);
    await update(made.id, { active: false, component_code: code({ props: [HTTP, TIMER], version: '2' }) });
    expect([names(), await live()]).toEqual([['deactivate'], [false, false]]);
    expect((await update(made.id, { name: 'Renamed' })).active).toBe(true);
    expect([names(), await live()]).toEqual([
      ['deactivate', 'activate'],
      [true, true],
    ]);
    await update(made.id, { name: 'Once more' });
    expect(names()).toEqual(['deactivate', 'activate']);
  });

  test('a changed schedule starts anew', async () => {
    const made = await create({ component_code: code({ props: [TIMER] }) });
    const before = (await bed.rowsOf(made.id)).timers[0]!;
    await update(made.id, { configured_props: { timer: { intervalSeconds: 60 } } });
    const after = (await bed.rowsOf(made.id)).timers[0]!;
    expect([before.interval_seconds, after.interval_seconds]).toEqual([3600, 60]);
    expect(after.due_at! - Date.now()).toBeGreaterThan(50_000);
    expect(after.due_at! - Date.now()).toBeLessThanOrEqual(60_000);
  });

  test('an activate hook that throws brings everything back and activates the former code', async () => {
    const made = await create({ component_code: code({ props: [HTTP, TIMER] }), name: 'Steady' });
    const before = await bed.rowsOf(made.id);
    const old = before.source!.deployment_id;
    bed.hooks.length = 0;
    bed.onHook((hook, deployment) => {
      if (hook === 'activate' && deployment !== old) throw new Error('says no');
    });
    const props = [{ ...HTTP, name: 'web' }, TIMER];
    const change = {
      component_code: code({ props }),
      name: 'Changed',
      configured_props: { timer: { cron: '@daily' } },
    };
    await expect(update(made.id, change)).rejects.toMatchObject({ status: 400 });
    const after = await bed.rowsOf(made.id);
    expect(after.source).toEqual(before.source);
    expect([after.endpoints, after.deployments]).toEqual([before.endpoints, before.deployments]);
    expect(after.timers[0]).toMatchObject({ interval_seconds: 3600, cron: null });
    expect(names()).toEqual(['deactivate', 'activate', 'activate']);
    expect(bed.hooks.at(-1)).toBe(`activate ${old}`);
  });

  test('a deactivate hook that throws stops only who asked for it', async () => {
    const made = await create();
    bed.onHook((hook) => {
      if (hook === 'deactivate') throw new Error('says no');
    });
    const strict = { ignore_hook_errors: false };
    bed.hooks.length = 0;
    for (const change of [{ active: false }, { component_code: code({ version: '2' }) }]) {
      await expect(update(made.id, { ...change, ...strict })).rejects.toMatchObject({ status: 400 });
    }
    await expect(bed.invoke('deleteSource', { id: made.id }, strict)).rejects.toMatchObject({ status: 400 });
    expect(await read(made.id)).toEqual(made);
    expect(names()).toEqual(['deactivate', 'deactivate', 'deactivate']);
    expect((await update(made.id, { active: false })).active).toBe(false);
    await bed.invoke('deleteSource', { id: made.id }, strict);
    expect(await leftovers()).toBe(0);
  });

  test('updates and deletions of one source follow one another', async () => {
    const made = await create();
    bed.hooks.length = 0;
    bed.onHook(() => new Promise<void>((done) => void setImmediate(done)));
    const versions = Array.from({ length: 5 }, (_, i) =>
      update(made.id, { component_code: code({ version: String(i) }) }),
    );
    await Promise.all(versions);
    expect(names()).toEqual(Array.from({ length: 10 }, (_, i) => (i % 2 ? 'activate' : 'deactivate')));
    for (let i = 2; i < 10; i += 2) expect(bed.hooks[i]!.split(' ')[1]).toBe(bed.hooks[i - 1]!.split(' ')[1]);
    const gone = await Promise.allSettled(
      [1, 2, 3].map(() => bed.invoke('deleteSource', { id: made.id }, {})),
    );
    expect(gone.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected']);
  });

  test('concurrency fits the component it is given to', async () => {
    const db = code({ props: [{ name: 'db', type: '$.service.db' }] });
    const refused = { status: 400, param: 'concurrency' };
    await expect(create({ component_code: db, concurrency: 2 })).rejects.toMatchObject(refused);
    await expect(create({ component_code: code({ dedupe: 'last' }), concurrency: 2 })).rejects.toMatchObject(
      refused,
    );
    const made = await create({ component_code: code({ props: [HTTP] }), concurrency: 10 });
    await expect(update(made.id, { component_code: db })).rejects.toMatchObject(refused);
    await update(made.id, { concurrency: 3 });
    expect((await bed.rowsOf(made.id)).endpoints[0]!.concurrency).toBe(3);
  });
});

test('a deleted source takes everything along, but not what belongs to others', async () => {
  const [made, kept] = [
    await create({ component_code: code({ props: [HTTP, TIMER] }) }),
    await create({ component_code: code({ props: [HTTP] }) }),
  ];
  const subscribe = (emitter_id: string, listener_id: string) =>
    bed.store.collection(subscriptions).insert({
      id: `sub_${emitter_id.slice(3)}${listener_id.slice(3)}`,
      owner_id: 'u_0000000001',
      user_id: 'u_0000000001',
      emitter_id,
      listener_id,
      event_name: '',
      created_at: 0,
    });
  for (const [emitter, listener] of [
    [made.id, kept.id],
    [kept.id, made.id],
    [kept.id, 'wh_0000000001'],
  ]) {
    await subscribe(emitter!, listener!);
  }
  await bed.invoke('deleteSource', { id: made.id }, {});
  expect(await bed.rowsOf(made.id)).toEqual({
    source: undefined,
    deployments: [],
    endpoints: [],
    timers: [],
  });
  expect((await bed.rowsOf(kept.id)).endpoints).toHaveLength(1);
  expect((await bed.store.collection(subscriptions).list()).map(({ listener_id }) => listener_id)).toEqual([
    'wh_0000000001',
  ]);
  for (const operation of ['getSource', 'updateSource', 'deleteSource', 'runSource']) {
    await expect(bed.invoke(operation, { id: made.id }, {})).rejects.toMatchObject({ status: 404 });
  }
  expect(await bed.store.collection(components).count()).toBe(2);
});

test.each([
  ['created', 'deploy'],
  ['created', 'activate'],
  ['updated', 'deactivate'],
  ['updated', 'activate'],
])('a source that is deleted with its owner while it is %s leaves nothing, in %s', async (what, moment) => {
  const props = [HTTP, TIMER];
  const made = what === 'updated' ? await create({ component_code: code({ props }) }) : undefined;
  bed.onHook((hook, _deployment, id) => (hook === moment ? deleteSourceRows(bed.store, id) : undefined));
  const changed = { component_code: code({ props: [...props, { ...HTTP, name: 'web' }], version: '2' }) };
  const doing = made ? update(made.id, changed) : create(changed);
  await expect(doing).rejects.toMatchObject({ status: 404 });
  expect(await leftovers()).toBe(0);
});

test('sources of other tenants return 404', async () => {
  const made = await create();
  const org = await create({ org_id: 'o_0000000001' });
  for (const id of [made.id, org.id, 'dc_0000000000']) {
    for (const operation of ['getSource', 'updateSource', 'deleteSource', 'runSource']) {
      await expect(bed.invoke(operation, { id }, {}, BOB)).rejects.toMatchObject({ status: 404 });
    }
  }
  expect((await read(org.id, user('u_0000000003', 'o_0000000001'))).id).toBe(org.id);
  await expect(create({ org_id: 'o_0000000001' }, BOB)).rejects.toMatchObject({ status: 403 });
  await expect(bed.invoke('listOrgSources', { org_id: 'o_0000000001' }, {}, BOB)).rejects.toMatchObject({
    status: 404,
  });
  const mine = await bed.invoke<{ data: Shown[] }>('listMySources', {}, {});
  expect(mine.data.map(({ id }) => id)).toEqual([made.id]);
});

describe('running by hand', () => {
  const jobs = async () => {
    const found: string[] = [];
    const done = new AbortController();
    await bed.queue.consume(
      'runs',
      async ([job]) => {
        found.push(job.payload);
        done.abort();
      },
      { concurrency: 1, signal: done.signal },
    );
    return found.map((payload) => JSON.parse(payload));
  };

  test.each([
    ['the event that was given', [], { event: { n: 1 } }, { n: 1 }],
    ['nothing', [], { event: null }, null],
    ['an empty object', [], {}, {}],
    ['a tick', [TIMER], {}, { timestamp: expect.any(Number), interval_seconds: 3600 }],
    ['an empty request', [HTTP], {}, { method: 'GET', path: '/', query: {}, headers: {}, bodyRaw: '' }],
  ])('hands over %s', async (_what, props, input, expected) => {
    const made = await create({ component_code: code({ props }) });
    const { run_id } = await bed.invoke('runSource', { id: made.id }, input);
    const [job] = await jobs();
    expect(job).toMatchObject({ run_id, source_id: made.id, trigger: { kind: 'manual' }, hop: 0 });
    expect(JSON.parse(job.trigger.payload)).toEqual(expected);
  });

  test('is refused while the source is inactive', async () => {
    const made = await create();
    await update(made.id, { active: false });
    await expect(bed.invoke('runSource', { id: made.id }, {})).rejects.toMatchObject({ status: 409 });
  });
});

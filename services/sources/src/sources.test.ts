import { describe, expect, test } from '@jest/globals';
import { openValues } from '@wellspring/runtime/secret-values';
import { components } from '@wellspring/store/collections/components';
import { deleteSourceRows } from '@wellspring/store/collections/delete-source';
import { sources } from '@wellspring/store/collections/sources';
import { autoSubscriptions, subscriptions } from '@wellspring/store/collections/subscriptions';
import { users } from '@wellspring/store/collections/users';
import { OWNER, subscriptionRow } from '@wellspring/testing/rows';
import { BOB, seal, user } from '@wellspring/testing/service-harness';
import { code, HTTP, TIMER } from './platform.fixture.ts';
import { bed, create, leftovers, read, type Shown, update } from './sources.fixture.ts';

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
    await expect(create({ component_code: code({ type: 'action' }) })).rejects.toMatchObject({
      status: 400,
      param: 'component_code',
    });
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

  test('gives each source of an owner a distinct slug, also when several are created at once', async () => {
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

  test('stores secrets that are not strings sealed, too, and an update keeps them', async () => {
    const secret = (name: string, type: string, more = {}) => ({ name, type, secret: true, ...more });
    const given = {
      room: { __lv: { label: 'hush', value: 'hush' } },
      list: ['hush', 'hush hush'],
      map: { key: 'hush' },
      pin: 123456789,
      json: '{"key":"hush"}',
    };
    const props = [
      secret('room', 'string', { withLabel: true }),
      ...[secret('list', 'string[]'), secret('map', 'object'), secret('pin', 'integer')],
      ...[secret('json', 'string'), secret('flag', 'boolean', { default: false })],
      { ...TIMER, secret: true },
    ];
    const made = await create({ component_code: code({ props }), configured_props: given });
    const masked = made.configured_props;
    expect(masked).toMatchObject({ room: '********', list: '********', map: '********', pin: '********' });
    const [row] = (await bed.rowsOf(made.id)).deployments;
    expect(JSON.stringify(row)).not.toMatch(/hush|123456789/);
    await update(made.id, { configured_props: masked });
    const [kept] = (await bed.rowsOf(made.id)).deployments;
    expect(kept!.id).not.toBe(row!.id);
    expect(JSON.stringify(kept)).not.toMatch(/hush|123456789/);
    const opened = openValues({ seal }, kept!);
    expect(opened).toEqual({ ...given, flag: false, [TIMER.name]: expect.anything() });
  });
});

test('auto-subscriptions apply to a new source before its deploy hook', async () => {
  await bed.store.collection(autoSubscriptions).insert({
    ...{ id: 'as_0000000001', owner_id: OWNER, user_id: OWNER, listener_id: 'wh_0000000001' },
    ...{ event_name: '$errors', created_at: 0 },
  });
  const rows = bed.store.collection(subscriptions);
  let before: number | undefined;
  bed.onHook(async (hook) => {
    if (hook === 'deploy') before = await rows.count();
  });
  const { id } = await create();
  expect(before).toBe(1);
  expect(await rows.list()).toMatchObject([{ emitter_id: id, event_name: '$errors', owner_id: OWNER }]);
});

test('a source without a component is refused with the four ways to name one', async () => {
  await expect(bed.invoke('createSource', {}, {})).rejects.toMatchObject({
    status: 400,
    param: 'component_id',
    message: expect.stringMatching(/component_id, component_code, component_url and key/),
  });
});

test('a deleted source takes everything along, but not what belongs to others', async () => {
  const [made, kept] = [
    await create({ component_code: code({ props: [HTTP, TIMER] }) }),
    await create({ component_code: code({ props: [HTTP] }) }),
  ];
  const subscribe = (emitter_id: string, listener_id: string) =>
    bed.store.collection(subscriptions).insert(subscriptionRow({ emitter_id, listener_id }));
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

test('a source that is deleted with its owner before its deployment is written leaves nothing', async () => {
  const removeAll = async () => {
    for (const { id } of await bed.store.collection(sources).list()) await deleteSourceRows(bed.store, id);
  };
  // The first write is the row of the source.
  bed.onNextWrite(async () => bed.onNextWrite(removeAll));
  const creating = create({ component_code: code({ props: [HTTP, TIMER] }) });
  await expect(creating).rejects.toMatchObject({ status: 404 });
  expect(await leftovers()).toBe(0);
});

test.each([
  ['is being deleted', () => bed.store.collection(users).patch(OWNER, { deleting: true })],
  ['is deleted', () => bed.store.collection(users).remove(OWNER)],
])('a source that is written when its owner %s leaves nothing, and runs no hook', async (_what, end) => {
  bed.onNextResolve(async () => void (await end()));
  const creating = create({ component_code: code({ props: [HTTP, TIMER] }) });
  await expect(creating).rejects.toMatchObject({ status: 404, message: expect.stringContaining(OWNER) });
  expect(bed.hooks).toEqual([]);
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

test('another tenant gets 404 while a hook runs, and does not wait for it', async () => {
  const made = await create();
  const answers: unknown[] = [];
  bed.onHook(async (_hook, _deployment, id) => {
    const refused = (asked: Promise<unknown>) => asked.then(String, ({ status }) => status as unknown);
    answers.push(
      await refused(update(id, { name: 'Mine' }, BOB)),
      await refused(bed.invoke('deleteSource', { id }, {}, BOB)),
    );
  });
  await update(made.id, { active: false });
  expect(answers).toEqual([404, 404]);
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
      { signal: done.signal },
    );
    return found.map((payload) => JSON.parse(payload));
  };

  test('spreads the runs of a source with concurrency over its shards', async () => {
    const made = await create({ component_code: code({}), concurrency: 2 });
    const keys: string[] = [];
    for (let n = 0; n < 2; n += 1) {
      await bed.invoke('runSource', { id: made.id }, { event: null });
      const done = new AbortController();
      const take = async ([job]: readonly [{ key: string }, ...unknown[]]) => {
        keys.push(job.key);
        done.abort();
      };
      await bed.queue.consume('runs', take, { signal: done.signal });
    }
    expect(keys.sort()).toEqual([`${made.id}#0`, `${made.id}#1`]);
  });

  test.each([
    ['the event that was given', [], { event: { n: 1 } }, { n: 1 }],
    ['nothing', [], { event: null }, null],
    ['an empty object', [], {}, {}],
    ['a tick', [TIMER], {}, { timestamp: expect.any(Number), interval_seconds: 3600 }],
    [
      'a tick of a schedule',
      [{ ...TIMER, default: { cron: '0 0 * * *' } }],
      {},
      { timestamp: expect.any(Number), cron: '0 0 * * *', timezone: 'UTC' },
    ],
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

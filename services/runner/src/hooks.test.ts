import { describe, expect, test } from '@jest/globals';
import { CALLS } from '@wellspring/contract/calls';
import { silentLog } from '@wellspring/core/log';
import { removeEmitter } from '@wellspring/runtime/remove-emitter';
import { deleteSourceRows } from '@wellspring/store/collections/delete-source';
import { events } from '@wellspring/store/collections/events';
import { sources } from '@wellspring/store/collections/sources';
import { states } from '@wellspring/store/collections/states';
import { usage } from '@wellspring/store/collections/users';
import { eventually } from '@wellspring/testing/eventually';
import { numbers } from '@wellspring/testing/numbers';
import { codeAllowNetworks, createGate, type Gate } from './gate.fixture.ts';
import { usePlatform } from './platform.fixture.ts';

const t = usePlatform({ codeAllowNetworks });

/** A hook that waits for the gate. */
const hooked = (gate?: Gate) => `export default {
  name: 'Hooked',
  props: { db: '$.service.db' },
  hooks: {
    deploy() { this.$emit('deployed'); },
    async activate() {
      this.db.set('by hook', 'set');
      console.log('waiting');
      ${gate?.wait ?? ''}
      this.$emit('activated');
    },
    deactivate() { throw new TypeError('cannot leave'); },
  },
  run(event) { this.$emit([event, this.db.get('by hook') ?? null]); this.db.set('by run', event); },
};`;

/** Starts the hook; resolves when runs see its set. */
async function hookBeside(id: string) {
  const ended = t.hook(id, 'activate');
  await eventually(async () => {
    await t.runToEnd(id, ['beside']);
    return (await t.events(id)).some((event) => JSON.stringify(event) === '["beside","set"]');
  });
  return { ended };
}

describe('a hook', () => {
  test('commits its emits, sets and logs as a separate run', async () => {
    const id = await t.deploy(hooked());
    expect(await t.hook(id, 'deploy')).toEqual({ ok: true });
    expect(await t.events(id)).toEqual(['deployed']);
    expect((await t.logs(id)).map(({ k }) => k)).toEqual(['start', 'emit', 'end']);
  });

  test('blocks no run, and runs see its sets at once', async () => {
    await using gate = await createGate();
    const id = await t.deploy(hooked(gate));
    const hook = await hookBeside(id);
    expect(await t.events(id)).not.toContain('activated');
    gate.open();
    expect(await hook.ended).toEqual({ ok: true });
    expect((await t.events(id)).at(-1)).toBe('activated');
    expect((await t.store.collection(states).get(id))!.db).toEqual({
      'by hook': '"set"',
      'by run': '"beside"',
    });
  });

  test('loses nothing when a concurrent run fails to commit', async () => {
    await using gate = await createGate();
    const id = await t.deploy(hooked(gate));
    const hook = await hookBeside(id);
    const commits = t.refuseCommit();
    await t.runToEnd(id, ['refused once']);
    gate.open();
    expect(await hook.ended).toEqual({ ok: true });
    await t.quiet();
    expect(commits()).toBeGreaterThan(1);
    expect((await t.store.collection(states).get(id))!.db['by hook']).toBe('"set"');
    expect((await t.events(id)).filter((event) => event === 'activated')).toHaveLength(1);
    await t.runToEnd(id, ['afterwards']);
    expect((await t.events(id)).at(-1)).toEqual(['afterwards', 'set']);
    expect(
      (await t.events(id)).filter((event) => JSON.stringify(event).includes('refused once')),
    ).toHaveLength(1);
  });

  test('keeps log lines that were committed while it ran, also if that commit fails', async () => {
    await using gate = await createGate();
    const id = await t.deploy(hooked(gate));
    const commits = t.refuseCommit();
    const hook = t.hook(id, 'activate');
    await eventually(() => commits() > 0);
    await t.runToEnd(id, ['beside']);
    gate.open();
    expect(await hook).toEqual({ ok: true });
    expect(await t.lines(id)).toEqual(['waiting']);
  });

  test('that throws returns the error with its place and stores a record that names the hook', async () => {
    const id = await t.deploy(hooked());
    expect(await t.hook(id, 'deactivate')).toEqual({
      ok: false,
      name: 'TypeError',
      message: 'cannot leave (component.js:12:26)',
    });
    expect(await t.events(id, '$errors')).toMatchObject([
      {
        original_event: null,
        original_context: { hook: 'deactivate', source_type: 'HOOK' },
        error: { code: 'TypeError' },
      },
    ]);
  });

  test('in progress when its source is deleted is answered with 404', async () => {
    await using gate = await createGate();
    const id = await t.deploy(hooked(gate));
    const hook = await hookBeside(id);
    await Promise.all([
      removeEmitter({ ...t, log: silentLog }, id),
      expect(hook.ended).rejects.toMatchObject({ status: 404 }),
    ]);
    await t.quiet();
    expect(await t.store.collection(states).get(id)).toBeUndefined();
  });

  test('missing in the code succeeds at once; a deleted source is not found', async () => {
    const id = await t.deploy(`export default { name: 'Bare', run() {} };`);
    expect(await t.hook(id, 'deploy')).toEqual({ ok: true });
    expect(await t.logs(id)).toEqual([]);
    const message = { source_id: 'dc_0000000000', deployment_id: 'd_0000000000', hook: 'deploy' };
    await expect(t.call.request(CALLS.hook, message, { deadlineMs: 5000 })).rejects.toMatchObject({
      status: 404,
    });
  });
});

test('a commit stores no set of a later run without its events', async () => {
  const id = await t.deploy(`export default { name: 'Cursor', props: { db: '$.service.db' }, run(event) {
    this.db.set('cursor', event);
    this.$emit(event);
  } };`);
  const seen: [cursor: string | undefined, events: number][] = [];
  const real = t.store.commitRun;
  t.store.commitRun = async (commit) => {
    seen.push([commit.state.db?.cursor, Number(JSON.parse([...commit.events].at(-1)!.payload))]);
    return real(commit);
  };
  await t.runToEnd(id, numbers(100));
  expect(await t.events(id)).toHaveLength(100);
  expect(seen.length).toBeGreaterThan(1);
  for (const [cursor, event] of seen) expect(cursor).toBe(String(event));
});

test('a deleted source leaves nothing, even with runs and hooks in progress', async () => {
  const id = await t.deploy(`export default { name: 'Slow', async run() {
    this.$emit(1);
    console.log('started');
    await new Promise((resolve) => setTimeout(resolve, 60_000));
  } };`);
  await t.runAll(id, [1, 2, 3]);
  await eventually(async () => (await t.queue.depth('runs')) === 3);
  await deleteSourceRows(t.store, id);
  expect(await t.call.request(CALLS.forget, { source_id: id }, { deadlineMs: 5000 })).toEqual({ ok: true });
  await t.quiet();
  expect(await t.store.collection(events).count()).toBe(0);
  expect(await t.store.collection(states).get(id)).toBeUndefined();
});

test('a source is forgotten when its commit in progress has ended', async () => {
  const id = await t.deploy(`export default { name: 'Emits', run(event) { this.$emit(event); } };`);
  const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const seen: string[] = [];
  const real = t.store.commitRun;
  t.store.commitRun = async (commit) => {
    begun.resolve();
    await ended.promise;
    const done = await real(commit);
    seen.push('committed');
    return done;
  };
  await t.runAll(id, [1]);
  await begun.promise;
  const options = { deadlineMs: 5_000 };
  const forgotten = t.call
    .request(CALLS.forget, { source_id: id }, options)
    .then(() => seen.push('forgotten'));
  // Answered after a call before it that waits for nothing.
  await t.call.request(CALLS.cancel, { run_id: 'run_0' }, options);
  ended.resolve();
  await forgotten;
  expect(seen).toEqual(['committed', 'forgotten']);
});

test('no hook runs in a source that is being deleted', async () => {
  const id = await t.deploy(`export default { name: 'Hooked', hooks: { activate() {} }, run() {} };`);
  const { deployment_id } = (await t.store.collection(sources).get(id))!;
  const activate = () =>
    t.call.request(CALLS.hook, { source_id: id, deployment_id, hook: 'activate' }, { deadlineMs: 60_000 });
  expect(await activate()).toEqual({ ok: true });
  await deleteSourceRows(t.store, id, { keepOwn: true });
  await expect(activate()).rejects.toMatchObject({ status: 404 });
});

describe('processor time outside of runs', () => {
  const BURN = `{ const from = process.cpuUsage().user; while (process.cpuUsage().user - from < 300_000); }`;
  const used = async () => {
    const [row = { invocations: 0, compute_ms: 0 }] = await t.store.collection(usage).list();
    return row;
  };

  test('of a hook is charged to the owner without counting an invocation', async () => {
    const id = await t.deploy(
      `export default { name: 'Burns', hooks: { activate() { ${BURN} } }, run() {} };`,
    );
    const { compute_ms: before } = await used();
    expect(await t.hook(id, 'activate')).toEqual({ ok: true });
    await eventually(async () => (await used()).compute_ms >= before + 250);
    expect((await used()).invocations).toBe(0);
  });

  test('of reading a definition is charged to the owner, also when it fails', async () => {
    await expect(t.prepare(`${BURN} throw new Error('burnt');`)).rejects.toMatchObject({ status: 400 });
    await eventually(async () => (await used()).compute_ms >= 250);
    expect((await used()).invocations).toBe(0);
  });
});

describe('preparing code', () => {
  test('returns its bundle and its definition', async () => {
    const { bundle, bundle_id, definition } = await t.prepare(
      `export default { name: 'Read', key: 'read', version: '0.1.0', dedupe: 'last', props: { a: 'string' }, hooks: { activate() {} } };`,
    );
    expect(definition).toMatchObject({
      name: 'Read',
      key: 'read',
      version: '0.1.0',
      dedupe: 'last',
      hooks: ['activate'],
      has_run: false,
    });
    expect(bundle.code).toContain('Read');
    expect(bundle_id).toMatch(/^[0-9a-f]{64}$/);
  });

  test.each([
    ['export default {', /expected|unexpected|syntax/i],
    ['export default {};', /needs a name/],
    ['throw new Error("at the top");', /at the top/],
    ['process.exit(3)', /./],
  ])('%s is a 400 that says why', async (code, message) => {
    await expect(t.prepare(code)).rejects.toMatchObject({
      status: 400,
      code: 'invalid_component',
      message: expect.stringMatching(message),
    });
  });
});

import { describe, expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { components } from '@wellspring/store/collections/components';
import { applyUpdate, type NewValues } from './apply-update.ts';
import { createAttempts } from './attempts.ts';
import type { SourcesContext } from './context.ts';
import { code, HTTP, TIMER } from './platform.fixture.ts';
import { bed, create, leftovers, names, read, update } from './sources.fixture.ts';

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

  test('the values of all props have at most 2 MB, also if they are given one after the other', async () => {
    const names = Array.from({ length: 36 }, (_, n) => `p${n}`);
    const props = names.map((name) => ({ name, type: 'string', optional: true }));
    const values = (some: string[]) => Object.fromEntries(some.map((name) => [name, 'x'.repeat(60 * 1024)]));
    const made = await create({
      component_code: code({ props }),
      configured_props: values(names.slice(0, 30)),
    });
    await expect(update(made.id, { configured_props: values(names.slice(30)) })).rejects.toMatchObject({
      status: 400,
      param: 'configured_props',
    });
    await update(made.id, { configured_props: values(names.slice(30, 34)) });
  });

  test('removes the endpoint of a removed prop, and adds one for a new prop', async () => {
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

  test('a source whose component is deleted is renamed, paused and given concurrency, but not configured', async () => {
    const { id, component_id } = await create({ component_code: code({ props: [HTTP, TIMER] }) });
    await bed.store.collection(components).remove(component_id);
    const changes = { name: 'Renamed', active: false, concurrency: 2 };
    expect(await update(id, changes)).toMatchObject({ ...changes, component_id });
    const refused = update(id, { configured_props: { timer: { cron: '@daily' } } });
    await expect(refused).rejects.toMatchObject({ status: 404 });
    const code2 = code({ props: [HTTP], version: '2' });
    expect((await update(id, { component_code: code2 })).component_id).not.toBe(component_id);
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

  test('an update that fails after its deactivate hook activates the source again', async () => {
    const made = await create();
    const before = await bed.rowsOf(made.id);
    for (const change of [{ active: false }, { component_code: code({ version: '2' }) }]) {
      bed.hooks.length = 0;
      bed.onHook((hook) => {
        if (hook !== 'deactivate') return;
        bed.onNextWrite(async () => {
          throw new Error('the store fails');
        });
      });
      await expect(update(made.id, change)).rejects.toThrow('the store fails');
      const { deployment_id } = before.source!;
      expect(bed.hooks).toEqual([`deactivate ${deployment_id}`, `activate ${deployment_id}`]);
      expect(await bed.rowsOf(made.id)).toEqual(before);
    }
  });

  test('a source that another process deletes while its update is reverted is not activated again', async () => {
    const made = await create();
    bed.hooks.length = 0;
    bed.onHook(() => {
      bed.onHook(() => {});
      bed.onNextWrite(async () => {
        bed.onNextWrite(async () => void (await bed.invokeElsewhere('deleteSource', { id: made.id }, {})));
        throw new Error('the store fails');
      });
    });
    await expect(update(made.id, { active: false })).rejects.toThrow('the store fails');
    expect(names()).toEqual(['deactivate', 'deactivate']);
    expect(await leftovers()).toBe(0);
  });

  test('a deactivate hook that throws refuses the change only with ignore_hook_errors: false', async () => {
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
    const store = code({ props: [{ name: 'store', type: 'data_store' }] });
    await expect(create({ component_code: store, concurrency: 2 })).rejects.toMatchObject(refused);
    const made = await create({ component_code: code({ props: [HTTP] }), concurrency: 10 });
    await expect(update(made.id, { component_code: db })).rejects.toMatchObject(refused);
    await update(made.id, { concurrency: 3 });
    expect((await bed.rowsOf(made.id)).endpoints[0]!.concurrency).toBe(3);
  });

  test('an update from an outdated row is refused: it would undo that of another process, or be undone by it', async () => {
    const made = await create({ name: 'First' });
    const outdated = (await bed.rowsOf(made.id)).source!;
    // Another process, which does not wait for the updates of this one. It gets no further than to its first write.
    const deps = { store: bed.store, clock: systemClock };
    const context = { deps, attempts: createAttempts() } as SourcesContext;
    const inAnotherProcess = (changes: Partial<NewValues>) =>
      applyUpdate(context, outdated, { ...outdated, ...changes }, true).catch(({ code }) => code);
    const refused: unknown[] = [];
    bed.onHook(async () => void refused.push(await inAnotherProcess({ name: 'Lost' })));
    await update(made.id, { component_code: code({ version: '2' }) });
    expect(refused).toEqual(['source_busy', 'source_busy']);
    await update(made.id, { name: 'Second' });
    for (const changes of [{ name: 'Lost' }, { concurrency: 2 }])
      expect(await inAnotherProcess(changes)).toBe('source_busy');
    expect(await read(made.id)).toMatchObject({ name: 'Second', name_slug: 'second' });
    await bed.invoke('deleteSource', { id: made.id }, {});
    expect(await inAnotherProcess({ name: 'Lost' })).toBe('not_found');
  });

  test('an update that loses against one of another process leaves the deployment of that one', async () => {
    const made = await create();
    const [begun, lost] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    bed.onHook((hook) => {
      if (hook !== 'deactivate') return;
      begun.resolve();
      return lost.promise;
    });
    const change = (version: string) => ({ component_code: code({ version }) });
    let winner: ReturnType<typeof update> | undefined;
    bed.onNextResolve(async () => {
      winner = update(made.id, change('2'));
      await begun.promise;
    });
    const loser = bed.invokeElsewhere('updateSource', { id: made.id }, change('3'));
    await expect(loser).rejects.toMatchObject({ code: 'source_busy' });
    lost.resolve();
    const { component_id } = (await winner)!;
    const { source, deployments } = await bed.rowsOf(made.id);
    expect(source).toMatchObject({ component_id, status: 'live' });
    expect(deployments).toMatchObject([{ id: source!.deployment_id, component_id }]);
  });

  test('an update that another process took for abandoned writes nothing into a later one', async () => {
    const made = await create({ name: 'First' });
    const first = bed.holdHook('deactivate');
    const abandoned = update(made.id, { active: false, name: 'Lost' }).catch(({ code }) => code);
    await first.begun;
    await bed.restart();
    const second = bed.holdHook('deactivate');
    const later = update(made.id, { component_code: code({ version: '2' }), name: 'Second' });
    await second.begun;
    first.end();
    expect(await abandoned).toBe('source_busy');
    second.end();
    const { component_id } = await later;
    const { source } = await bed.rowsOf(made.id);
    expect(source).toMatchObject({ component_id, active: true, name: 'Second', status: 'live' });
  });

  test.each(['deactivate', 'activate'] as const)(
    'an update taken for abandoned during its %s hook changes no endpoints',
    async (hook) => {
      const { id } = await create({ component_code: code({ props: [HTTP] }) });
      const { endpoints } = await bed.rowsOf(id);
      const held = bed.holdHook(hook);
      const change = { component_code: code({ props: [{ ...HTTP, name: 'other' }] }) };
      const abandoned = update(id, change).catch((error) => error.code);
      await held.begun;
      // That of the revert.
      bed.onHook(async () => {
        held.end();
        expect(await abandoned).toBe('source_busy');
      });
      await bed.restart();
      expect(await abandoned).toBe('source_busy');
      expect((await bed.rowsOf(id)).endpoints).toEqual(endpoints);
    },
  );
});

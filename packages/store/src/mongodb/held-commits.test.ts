import { describe, expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { eventually } from '@wellspring/testing/eventually';
import { withServers } from '@wellspring/testing/servers/servers';
import { events } from '../collections/events.ts';
import { outbox } from '../collections/outbox.ts';
import { states } from '../collections/states.ts';
import type { Store } from '../port.ts';
import { appended, run, useMongoSubjects } from './store.fixture.ts';

await withServers(['mongodb'], ({ mongodb }) => {
  const open = useMongoSubjects(mongodb);

  describe('the message of a commit', () => {
    const published = (store: Store, ...ids: string[]) =>
      store.collection(outbox).removeWhere({ id: { in: ids } });

    test('is never appended to the outbox if it is published at once', async () => {
      const { store, sent } = await open();
      await store.commitRun(run('dc_1', 0, [1]));
      expect(await store.collection(outbox).get('run_dc_1_1')).toEqual(run('dc_1', 0, [1]).outbox);
      expect(await published(store, 'run_dc_1_1')).toBe(1);
      expect(await store.collection(outbox).get('run_dc_1_1')).toBeUndefined();
      await eventually(() => sent.includes('update states'));
      expect(sent.filter((one) => /^(insert|delete) outbox/.test(one))).toEqual([]);
      expect(await appended(store)).toEqual({ events: [1], logs: 1, outbox: 0 });
    });

    test('is carried on by later commits until it is published', async () => {
      const { store, another } = await open({
        clock: { ...systemClock, now: () => 1 },
        fails: (one) => one === 'insert outbox',
      });
      await store.commitRun(run('dc_1', 0, [1]));
      await store.commitRun(run('dc_1', 1, [2]));
      await published(store, 'run_dc_1_1');
      await store.commitRun(run('dc_1', 2, [3]));
      // The process dies: its successor finds what was not published.
      const { store: next } = await another();
      expect(await next.collection(states).getVersioned('dc_1')).toMatchObject({ version: 3 });
      const left = await next.collection(outbox).list({ where: { emitter_id: 'dc_1' }, order: 'asc' });
      expect(left.map(({ id }) => id)).toEqual(['run_dc_1_2', 'run_dc_1_3']);
    });

    test('is forgotten if it is published while the next commit is written', async () => {
      let publishing: Promise<number> | undefined;
      let writes = 0;
      const fails = (statement: string) => {
        if (statement === 'insert events') writes += 1;
        if (writes === 2) publishing ??= published(store, 'run_dc_1_1');
        return statement === 'insert outbox';
      };
      const { store, another } = await open({ clock: { ...systemClock, now: () => 1 }, fails });
      await store.commitRun(run('dc_1', 0, [1]));
      await store.commitRun(run('dc_1', 1, [2]));
      expect(await publishing).toBe(1);
      await published(store, 'run_dc_1_2');
      await store.commitRun(run('dc_1', 2, [3]));
      const { store: next } = await another();
      const left = await next.collection(outbox).list({ where: { emitter_id: 'dc_1' } });
      expect(left.map(({ id }) => id)).toEqual(['run_dc_1_3']);
    });

    test('stays while the state is read in the same process during a commit', async () => {
      let reading: Promise<unknown> | undefined;
      const fails = (statement: string) => {
        if (statement === 'insert events') reading ??= store.collection(states).get('dc_1');
        return statement === 'insert outbox';
      };
      const { store, another } = await open({ clock: { ...systemClock, now: () => 1 }, fails });
      await store.commitRun(run('dc_1', 0, [1]));
      await store.commitRun(run('dc_1', 1, [2]));
      await reading;
      await store.commitRun(run('dc_1', 2, [3]));
      const { store: next } = await another();
      expect(await appended(next)).toEqual({ events: [1, 2, 3], logs: 3, outbox: 3 });
    });

    test('that another part of the process appends before it is held is removed when it is published', async () => {
      let listing: Promise<unknown> | undefined;
      const fails = (statement: string) => {
        const where = { emitter_id: 'dc_1' };
        if (statement === 'insert events') listing ??= store.collection(outbox).list({ where });
        return false;
      };
      const { store } = await open({ fails });
      await store.commitRun(run('dc_1', 0, [1]));
      await listing;
      expect(await published(store, 'run_dc_1_1')).toBe(1);
      expect(await store.collection(outbox).count()).toBe(0);
    });

    test('is not appended by a reader in another process', async () => {
      const { store, another } = await open();
      await store.commitRun(run('dc_1', 0, [1]));
      const { store: reading, sent } = await another();
      expect(await reading.collection(states).getVersioned('dc_1')).toMatchObject({ version: 1 });
      expect(await reading.collection(events).removeWhere({ partition: 'dc_1/events' })).toBe(1);
      expect(sent.filter((one) => one.endsWith('outbox'))).toEqual([]);
      expect(await published(store, 'run_dc_1_1')).toBe(1);
      expect(await appended(store)).toEqual({ events: [], logs: 1, outbox: 0 });
    });

    test('is appended if it was not published for long, and removed when it is', async () => {
      let now = 1;
      const { store, sent } = await open({ clock: { ...systemClock, now: () => now } });
      await store.commitRun(run('dc_1', 0, [1]));
      now += 5_000;
      await store.commitRun(run('dc_1', 1, [2]));
      expect(sent.filter((one) => one === 'insert outbox')).toHaveLength(1);
      expect(await published(store, 'run_dc_1_1')).toBe(1);
      expect(await store.collection(outbox).count()).toBe(0);
    });

    test('is found by the process that reads the state after an unknown outcome of the next commit', async () => {
      let broken = false;
      const { store } = await open({ fails: (one) => broken && one === 'insert events' });
      await store.commitRun(run('dc_1', 0, [1]));
      broken = true;
      await expect(store.commitRun(run('dc_1', 1, [2]))).rejects.toThrow('stopped');
      broken = false;
      expect(await store.commitRun(run('dc_1', 2, [3]))).toBe(true);
      expect(await appended(store)).toEqual({ events: [1, 2, 3], logs: 3, outbox: 3 });
      expect(await published(store, 'run_dc_1_1', 'run_dc_1_2', 'run_dc_1_3')).toBe(3);
      expect(await appended(store)).toEqual({ events: [1, 2, 3], logs: 3, outbox: 0 });
    });
  });
});

import { randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { eventually } from '@wellspring/testing/eventually';
import { withServers } from '@wellspring/testing/servers/servers';
import { channelWhere, events, logs } from '../collections/events.ts';
import { outbox } from '../collections/outbox.ts';
import { states } from '../collections/states.ts';
import type { Store } from '../port.ts';
import { appended, run, useMongoSubjects } from './store.fixture.ts';
import { createMongoStore } from './store.ts';

await withServers(['mongodb'], ({ mongodb }) => {
  const open = useMongoSubjects(mongodb);

  /** An incompressible text. */
  const noise = (bytes: number) => randomBytes(bytes).toString('latin1');

  describe('a process that dies between commit and append', () => {
    test.each(['insert events', 'insert logs'])(
      'before %s: a reader of the state finds all rows',
      async (statement) => {
        const { store, another } = await open({ fails: (one) => one === statement });
        await expect(store.commitRun(run('dc_1', 0, [1, 2]))).rejects.toThrow('stopped');
        const { store: next } = await another();
        expect(await next.collection(states).getVersioned('dc_1')).toMatchObject({ version: 1 });
        expect(await appended(next)).toEqual({ events: [1, 2], logs: 1, outbox: 1 });
      },
    );

    test('the next commit appends the rows of the previous one first', async () => {
      const { store, another } = await open({
        fails: (one) => one.startsWith('insert') && one !== 'insert states',
      });
      await expect(store.commitRun(run('dc_1', 0, [1]))).rejects.toThrow('stopped');
      const { store: next } = await another();
      expect(await next.commitRun(run('dc_1', 1, [2]))).toBe(true);
      expect(await appended(next)).toEqual({ events: [1, 2], logs: 2, outbox: 2 });
    });

    test('the outbox sweep finds it without a read of the state', async () => {
      const { store, another } = await open({ fails: (one) => one === 'insert outbox' });
      expect(await store.commitRun(run('dc_1', 0, [1]))).toBe(true);
      const later = { ...systemClock, now: () => systemClock.now() + 20_000 };
      const { store: sweeping } = await another({ clock: later });
      const left = await sweeping
        .collection(outbox)
        .list({ where: { created_at_ms: { lte: 5 } }, orderBy: 'created_at_ms' });
      expect(left.map(({ id }) => id)).toEqual(['run_dc_1_1']);
      expect(await appended(sweeping)).toEqual({ events: [1], logs: 1, outbox: 1 });
    });

    test('a reader who has seen an event has seen all before it, whichever process appended them', async () => {
      const { store, another } = await open({ fails: (one) => one === 'insert events' });
      await expect(store.commitRun(run('dc_1', 0, [1, 2, 3]))).rejects.toThrow('stopped');
      const others = await Promise.all([another(), another(), another()]);
      const working = Promise.all(others.map((one) => one.store.collection(states).get('dc_1')));
      const reader = (await another()).store.collection(events);
      for (let seen: number[] = []; seen.length < 3; ) {
        seen = (await reader.list({ order: 'asc' })).map(({ indexed_at_ms }) => indexed_at_ms);
        expect(seen).toEqual([1, 2, 3].slice(0, seen.length));
      }
      await working;
      expect(await appended(others[0]!.store)).toEqual({ events: [1, 2, 3], logs: 1, outbox: 1 });
    });
  });

  test.each([0, 1])(
    'a commit that was written although it failed is recognized when it is tried again (version %d)',
    async (version) => {
      let isFailing = false;
      const { store, another } = await open({
        fails: (one) => isFailing && one === 'insert events',
      });
      if (version === 1) await store.commitRun(run('dc_1', 0, [1]));
      const commit = run('dc_1', version, [2]);
      isFailing = true;
      await expect(store.commitRun(commit)).rejects.toThrow('stopped');
      isFailing = false;
      expect(await store.commitRun(commit)).toBe(true);
      expect(await store.commitRun(run('dc_1', version, [3]))).toBe(false);
      expect(await store.commitRun(run('dc_1', version + 1, [4]))).toBe(true);
      await store.close();
      const { store: next } = await another();
      const all = version === 1 ? [1, 2, 4] : [2, 4];
      expect(await appended(next)).toEqual({ events: all, logs: all.length, outbox: all.length });
    },
  );

  test('a stale read, as after an election, does not lead to overwriting rows that are not appended', async () => {
    const { mongo, another } = await open();
    let next: Promise<boolean> | undefined;
    let stale: object | undefined;
    const fails = (statement: string) => {
      if (statement !== 'insert events' || !stale || next) return false;
      // Based on the commit in progress.
      next = committing.commitRun(run('dc_1', 2, [3]));
      return true;
    };
    const process = await another({ fails });
    const reading = { find: () => ({ toArray: async () => [stale] }) };
    const db = new Proxy(process.mongo.db, {
      get(target, name) {
        const value = Reflect.get(target, name);
        if (name !== 'collection') return typeof value === 'function' ? value.bind(target) : value;
        return (collection: string) => {
          const real = target.collection(collection);
          return new Proxy(real, {
            get(own, method) {
              if (collection === 'states' && method === 'find' && next) return reading.find;
              const found = Reflect.get(own, method);
              return typeof found === 'function' ? found.bind(own) : found;
            },
          });
        };
      },
    });
    const committing: Store = createMongoStore({ ...process.mongo, db }, { clock: systemClock });
    await committing.commitRun(run('dc_1', 0, [1]));
    stale = (await mongo.db.collection('states').findOne({}))!;

    await expect(committing.commitRun(run('dc_1', 1, [2]))).rejects.toThrow('stopped');
    expect(await next).toBe(false);
    await committing.close();
    const { store } = await another();
    expect(await store.collection(states).getVersioned('dc_1')).toMatchObject({ version: 2 });
    expect(await appended(store)).toEqual({ events: [1, 2], logs: 2, outbox: 2 });
  });

  test('rows deleted after their commit do not reappear, even if the committing process died at once', async () => {
    // It dies before clearing the pending rows.
    const { store, another } = await open({ fails: (one) => one === 'update states' });
    await store.commitRun(run('dc_1', 0, [1, 2]));
    const { store: deleting } = await another();
    const ofOne = { partition: 'dc_1/events', sort_key: { lte: '00000001' } };
    expect(await deleting.collection(events).removeWhere(ofOne, 500)).toBe(1);
    expect(await deleting.collection(logs).removeWhere({ emitter_id: 'dc_1' })).toBe(1);
    const { store: next } = await another();
    expect(await next.collection(states).get('dc_1')).toBeDefined();
    expect(await appended(next)).toEqual({ events: [2], logs: 0, outbox: 1 });
  });

  test('rows deleted right after their commit do not reappear', async () => {
    const { store, another } = await open();
    await store.commitRun(run('dc_1', 0, [1, 2]));
    expect(await store.collection(events).removeWhere({ partition: 'dc_1/events' })).toBe(2);
    const { store: next } = await another();
    expect(await next.collection(states).get('dc_1')).toBeDefined();
    expect((await appended(next)).events).toEqual([]);
  });

  test('a deletion appends pending rows first, so that none appears later', async () => {
    const { store, another } = await open({ fails: (one) => one === 'insert events' });
    await expect(store.commitRun(run('dc_1', 0, [1]))).rejects.toThrow('stopped');
    const { store: deleting } = await another();
    expect(await deleting.collection(events).removeWhere(channelWhere('dc_1', 'events', ''))).toBe(1);
    const { store: next } = await another();
    expect(await next.collection(states).get('dc_1')).toBeDefined();
    expect((await appended(next)).events).toEqual([]);
  });

  test('concurrent commits of many emitters share statements', async () => {
    const { store, sent } = await open();
    await store.commitRun(run('dc_0', 0, [1]));
    await eventually(() => sent.includes('update states'));
    for (const version of [0, 1]) {
      sent.length = 0;
      const emitters = Array.from({ length: 40 }, (_, n) => `dc_${n + 1}`);
      const done = await Promise.all(emitters.map((id) => store.commitRun(run(id, version, [version + 1]))));
      expect(done).toEqual(emitters.map(() => true));
      const write = version === 0 ? 'insert states' : 'update states';
      expect(sent.slice(0, 3).sort()).toEqual(['insert events', 'insert logs', write].sort());
      // One statement appends what is not published, and one clears all pending rows.
      await eventually(() => sent.length === 5);
      expect(sent.slice(3)).toEqual(['insert outbox', 'update states']);
    }
  });

  describe('a run that exceeds the size of a document', () => {
    const large = () => run('dc_1', 0, [1, 2, 3, 4], noise(5_000_000));

    test('is committed atomically and leaves no side document', async () => {
      const { store, mongo } = await open();
      const commit = large();
      expect(await store.commitRun(commit)).toBe(true);
      expect(await store.collection(events).list({ order: 'asc' })).toEqual(commit.events);
      expect(await store.collection(outbox).get(commit.outbox!.id)).toEqual(commit.outbox);
      expect(await mongo.db.collection('pending').countDocuments()).toBe(0);
    });

    test('is completed by a reader after the process died', async () => {
      const { store, mongo, another } = await open({ fails: (one) => one === 'insert events' });
      await expect(store.commitRun(large())).rejects.toThrow('stopped');
      const { store: next } = await another();
      await next.collection(states).get('dc_1');
      expect(await appended(next)).toEqual({ events: [1, 2, 3, 4], logs: 1, outbox: 1 });
      expect(await mongo.db.collection('pending').countDocuments()).toBe(0);
    });

    test('when refused, its side documents are removed after an hour', async () => {
      const { store, mongo, another } = await open();
      await store.commitRun(run('dc_1', 0, [1]));
      expect(await store.commitRun(large())).toBe(false);
      const parts = mongo.db.collection('pending');
      expect(await parts.countDocuments()).toBeGreaterThan(1);
      const later = { ...systemClock, now: () => systemClock.now() + 4_000_000 };
      const { store: sweeping } = await another({ clock: later });
      await sweeping.collection(outbox).list();
      expect(await parts.countDocuments()).toBe(0);
      expect((await appended(store)).events).toEqual([1]);
    });
  });
});

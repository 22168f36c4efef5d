import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { MAX_OPERATION_MS } from '@wellspring/mongodb/client';
import { eventually } from '@wellspring/testing/eventually';
import { forSuite } from '@wellspring/testing/lifetimes';
import { startMongo } from '@wellspring/testing/servers/mongodb';
import { withPrograms } from '@wellspring/testing/servers/servers';
import { events } from '../collections/events.ts';
import { type TimerRow, timers } from '../collections/sources.ts';
import { states } from '../collections/states.ts';
import { type MongoSubject, openMongoSubject, run } from './store.fixture.ts';

const timer = (id: string): TimerRow => ({
  id,
  source_id: 'dc_1',
  prop: 'timer',
  interval_seconds: 1,
  cron: null,
  timezone: null,
  lease_until: null,
  due_at: 1,
});

await withPrograms(['mongodb'], () => {
  const server = forSuite(startMongo);
  let subject: MongoSubject;

  beforeEach(async () => {
    subject = await openMongoSubject(server.url);
  });
  afterEach(async () => {
    await server.start();
    await eventually(() => subject.store.ping().then(() => true));
    await subject.close();
  });

  /** Writes until the server is down; returns the acknowledged writes. */
  async function writeUntilDown(
    write: (n: number) => Promise<unknown>,
    next: () => number,
    acknowledged: number[],
  ) {
    for (;;) {
      const n = next();
      try {
        await write(n);
      } catch (error) {
        expect(error).toBeInstanceOf(Unavailable);
        return;
      }
      acknowledged.push(n);
    }
  }

  test('SIGKILL of the server under load: acknowledged writes survive', async () => {
    const rows = subject.store.collection(timers);
    const acknowledged: number[] = [];
    let n = 0;
    for (const round of [1, 2, 3]) {
      const target = round * 150;
      const writers = Array.from({ length: 8 }, () =>
        writeUntilDown(
          (one) => rows.insert(timer(`t${one}`)),
          () => n++,
          acknowledged,
        ),
      );
      await eventually(() => acknowledged.length >= target, { ms: 20_000 });
      await server.kill();
      await Promise.all(writers);
      await server.start();
      await eventually(() => subject.store.ping().then(() => true));
      const there = new Set((await rows.list()).map(({ id }) => id));
      expect(acknowledged.filter((one) => !there.has(`t${one}`))).toEqual([]);
    }
  }, 60_000);

  test('SIGKILL of the server during commits: runs are atomic, acknowledged ones survive', async () => {
    const emitters = Array.from({ length: 5 }, (_, i) => `dc_${i}`);
    const { store } = subject;
    const versions = new Map(emitters.map((id) => [id, 0]));
    const commits = emitters.map(async (id) => {
      for (;;) {
        const version = versions.get(id)!;
        try {
          expect(await store.commitRun(run(id, version, [version * 2 + 1, version * 2 + 2]))).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(Unavailable);
          return;
        }
        versions.set(id, version + 1);
      }
    });
    await eventually(() => [...versions.values()].every((version) => version >= 10), { ms: 20_000 });
    await server.kill();
    await Promise.all(commits);
    await server.start();
    await eventually(() => store.ping().then(() => true));
    for (const id of emitters) {
      const { version } = (await store.collection(states).getVersioned(id))!;
      expect(version).toBeGreaterThanOrEqual(versions.get(id)!);
      expect(version).toBeLessThanOrEqual(versions.get(id)! + 1);
      const written = await store
        .collection(events)
        .list({ where: { partition: `${id}/events` }, order: 'asc' });
      expect(written.map(({ indexed_at_ms }) => indexed_at_ms)).toEqual(
        Array.from({ length: version * 2 }, (_, n) => n + 1),
      );
      // Commits continue from the stored state.
      expect(await store.commitRun(run(id, version, [version * 2 + 1]))).toBe(true);
    }
  }, 60_000);

  test('an outage: every operation fails in bounded time and recovers within 5 s', async () => {
    const rows = subject.store.collection(timers);
    await rows.insert(timer('t1'));
    await subject.store.commitRun(run('dc_1', 0, [1]));
    await server.kill();
    const operations: (() => Promise<unknown>)[] = [
      () => rows.get('t1'),
      () => rows.list({ where: { due_at: 1 } }),
      () => rows.insert(timer('t2')),
      () => rows.insertMany([timer('t3')]),
      () => rows.patch('t1', { due_at: 2 }),
      () => rows.claim({ where: { due_at: 1 }, limit: 1 }, { due_at: 9 }),
      () => rows.removeWhere({ source_id: 'dc_1' }),
      () => subject.store.commitRun(run('dc_1', 1, [2])),
      () => subject.store.ping(),
    ];
    const begun = performance.now();
    const failures = await Promise.all(operations.map((one) => one().catch((error: unknown) => error)));
    expect(performance.now() - begun).toBeLessThan(MAX_OPERATION_MS);
    for (const failure of failures) expect(failure).toBeInstanceOf(Unavailable);
    await server.start();
    const back = performance.now();
    await eventually(() => rows.get('t1').then((row) => row !== undefined));
    expect(performance.now() - back).toBeLessThan(5_000);
    expect(await subject.store.commitRun(run('dc_1', 1, [2]))).toBe(true);
    expect(await rows.claim({ where: { due_at: 1 }, limit: 1 }, { due_at: 9 })).toHaveLength(1);
  }, 60_000);
});

import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach } from '@wellspring/testing/lifetimes';
import { withServers } from '@wellspring/testing/servers/servers';
import type { Job } from '../port.ts';
import { attempts, type OverflowRow } from './collections.ts';
import {
  createGate,
  ids,
  isAppend,
  isPage,
  isPayloads,
  openSubject,
  type Statement,
} from './partitions.fixture.ts';

const SPILL_MS = 250;
const FIND_MS = 30_000;

const flags = (jobs: readonly Job[]) => jobs.map(({ id, redelivered }) => `${id} ${redelivered}`);

await withServers(['rabbitmq'], ({ rabbitmq }) => {
  const closing = closeAfterEach();
  const open = async (jobsInMemory: number) => closing(await openSubject(rabbitmq, jobsInMemory));

  test('a failed job that was lost with its channel while it was moved is flagged as redelivered, those behind it are not', async () => {
    const { clock, consume, receive, hold, loseChannel, partitions } = await open(3);
    const failing = Promise.withResolvers<void>();
    const seen: Job[] = [];
    let calls = 0;
    consume(async ([job]) => {
      calls += 1;
      if (calls === 1) return failing.promise;
      seen.push(job);
    });
    await receive('slow', ['a', 'b']);
    await eventually(() => calls === 1);
    const append = hold(isAppend);
    await clock.advance(SPILL_MS);
    await append.reached;
    failing.reject(new Unavailable('at the moment'));
    // It waits for its backoff; further sleepers spill and search the overflow.
    await clock.asleep(3);
    await loseChannel();
    await eventually(() => partitions.messages === 0);
    await append.release();
    await eventually(async () => {
      await clock.advance(100);
      return seen.length === 2;
    });
    expect(flags(seen)).toEqual(['a true', 'b undefined']);
  });

  test.each([
    ['a page of rows that was being read', isPage],
    ['keys that were being looked for', ({ method }: Statement) => method === 'list'],
  ])('%s when the release began: none of their jobs is started', async (_, isHeld) => {
    const { clock, consume, receive, insert, hold, release } = await open(100);
    const held = Promise.withResolvers<void>();
    const seen: string[] = [];
    consume(async ([{ key }]) => {
      seen.push(key);
      await held.promise;
    });
    await receive('out', ['a']);
    await eventually(() => seen.length === 1);
    await insert('rows', ['b', 'c']);
    const reading = hold(isHeld);
    await clock.advance(FIND_MS);
    await reading.reached;
    const released = release();
    await reading.release();
    held.resolve();
    await released;
    expect(seen).toEqual(['out']);
  });

  test('a job whose last read took longer than the lease was certain is started when the lease is certain again', async () => {
    const { clock, consume, insert, hold, setCertain } = await open(100);
    const seen: string[] = [];
    await insert('rows', ['a']);
    const reading = hold(isPayloads);
    consume(async ([{ id }]) => void seen.push(id));
    await reading.reached;
    setCertain(false);
    await reading.release();
    await clock.asleep(2);
    expect(seen).toEqual([]);
    setCertain(true);
    await clock.advance(100);
    await eventually(() => seen.length === 1);
  });

  test('a job whose row the store does not find keeps its attempts when the jobs behind it fail', async () => {
    const { clock, consume, insert, intercept, store } = await open(100);
    const { admit, open: start } = createGate();
    intercept(async (statement, run) => {
      const found = await run();
      return isPayloads(statement) ? (found as OverflowRow[]).filter(({ id }) => id !== 'a') : found;
    });
    const seen: string[][] = [];
    consume(
      async (jobs) => {
        seen.push(jobs.map(({ id }) => id));
        if (seen.length === 1) throw new Error('not now');
      },
      { admit, batch: 2 },
    );
    await insert('rows', ['a', 'b']);
    await clock.advance(FIND_MS);
    start();
    await eventually(async () => {
      await clock.advance(100);
      return seen.length === 1;
    });
    intercept((_, run) => run());
    const attemptRows = store.collection(attempts);
    await eventually(async () => (await attemptRows.count()) === 1);
    expect(await attemptRows.list()).toEqual([{ id: 'b', attempts: 1 }]);
    await eventually(async () => {
      await clock.advance(100);
      return seen.flat().length === 3;
    });
    expect(seen).toEqual([['b'], ['a', 'b']]);
  });

  test('the row of a job that ended while it was moved is removed before the rows of its key are read', async () => {
    const { clock, consume, receive, hold, rows } = await open(250);
    const first = Promise.withResolvers<void>();
    const others = Promise.withResolvers<void>();
    const seen: string[] = [];
    consume(async ([{ id }]) => {
      seen.push(id);
      await (id === 'a0' ? first : others).promise;
    });
    await receive('slow', ids(200, 'a'));
    await eventually(() => seen.length === 1);
    const append = hold(isAppend);
    await clock.advance(SPILL_MS);
    await append.reached;
    first.resolve();
    await eventually(() => seen.length === 2);
    await append.release();
    await eventually(async () => (await rows.count()) === 199);
    expect(await rows.get('a0')).toBeUndefined();
    others.resolve();
    await eventually(() => seen.length === 200);
    expect(seen).toEqual(ids(200, 'a'));
  });

  test('the next job of a key whose jobs all ended while they were moved does not wait for their rows', async () => {
    const { clock, consume, receive, publish, hold, rows, partitions } = await open(3);
    const held = Promise.withResolvers<void>();
    const { admit, open: start } = createGate();
    const seen: string[] = [];
    consume(
      async (jobs) => {
        for (const { id } of jobs) seen.push(id);
        await held.promise;
      },
      { batch: 2, admit },
    );
    await receive('slow', ['a', 'b']);
    start();
    await eventually(() => seen.length === 2);
    const append = hold(isAppend);
    await clock.advance(SPILL_MS);
    await append.reached;
    held.resolve();
    await eventually(() => partitions.messages === 0);
    await append.release();
    await eventually(async () => (await rows.count()) === 0);
    await publish('slow', 'c');
    await eventually(() => seen.length === 3);
  });

  test('a failed job whose row could not be read keeps its row, its attempts and its flag, and is found again', async () => {
    const { clock, consume, receive, intercept, partitions } = await open(3);
    const seen: Job[] = [];
    const held = Promise.withResolvers<void>();
    consume(async ([job]) => {
      seen.push(job);
      if (seen.length > 1) return;
      await held.promise;
      throw new Error('counts as an attempt');
    });
    await receive('slow', ['a', 'b']);
    await clock.advance(SPILL_MS);
    await eventually(() => partitions.messages === 0);
    let stale = 0;
    intercept(async (statement, run) => {
      const found = await run();
      const isStale = isPayloads(statement) && (found as { id: string }[]).some(({ id }) => id === 'a');
      if (!isStale || seen.length > 1) return found;
      stale += 1;
      return [];
    });
    held.resolve();
    await eventually(async () => {
      await clock.advance(500);
      return seen.length === 2;
    });
    expect(stale).toBe(5);
    await eventually(async () => {
      await clock.advance(FIND_MS);
      return seen.length === 3;
    });
    expect(seen.map(({ id, attempt, redelivered }) => ({ id, attempt, redelivered }))).toEqual([
      { id: 'a', attempt: 1, redelivered: undefined },
      { id: 'b', attempt: 1, redelivered: undefined },
      { id: 'a', attempt: 2, redelivered: true },
    ]);
  });

  test('a job that was lost before it was handed out, and handed out as a row since, is flagged when its message comes once more', async () => {
    const { clock, consume, receive, insert, hold, loseChannel, partitions } = await open(3);
    const { admit, open: start } = createGate();
    const back = Promise.withResolvers<void>();
    const seen: Job[] = [];
    let others = 0;
    consume(
      async (jobs) => {
        if (jobs[0].key === 'slow') seen.push(...jobs);
        else others += jobs.length;
      },
      { batch: 500, admit },
    );
    await receive('slow', ['a', 'b']);
    const append = hold(isAppend);
    await clock.advance(SPILL_MS);
    await append.reached;
    await loseChannel(back.promise);
    await eventually(() => partitions.messages === 0);
    await append.release();
    start();
    await eventually(() => seen.length === 2);
    // More jobs end than ended ones are remembered.
    await insert('other', ids(4_100, 'other'));
    await clock.advance(FIND_MS);
    await eventually(() => others === 4_100);
    back.resolve();
    await eventually(() => seen.length === 4);
    expect(flags(seen)).toEqual(['a undefined', 'b undefined', 'a true', 'b true']);
  });

  test('while many rows are in memory, each further key has few of them, and all are handled in order', async () => {
    const { consume, insert, intercept } = await open(100);
    const keys = ids(20, 'key');
    for (const key of keys) await insert(key, ids(300, `${key}.`));
    const { asked, admit, open: start } = createGate();
    const seen: string[] = [];
    let read = 0;
    intercept(async (statement, run) => {
      const found = await run();
      if (isPage(statement)) read += (found as unknown[]).length;
      return found;
    });
    consume(async (jobs) => void seen.push(...jobs.map(({ id }) => id)), {
      batch: 50,
      admit,
    });
    await eventually(() => asked.size === keys.length);
    // The last keys with a page of 16 rows instead of 256.
    expect(read).toBeLessThan(19 * 256);
    start();
    await eventually(() => seen.length === 6_000, { ms: 30_000 });
    for (const key of keys) {
      expect(seen.filter((id) => id.startsWith(`${key}.`))).toEqual(ids(300, `${key}.`));
    }
  });
});

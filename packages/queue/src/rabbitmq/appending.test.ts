import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach } from '@wellspring/testing/lifetimes';
import { withServers } from '@wellspring/testing/servers/servers';
import type { Job } from '../port.ts';
import { createGate, ids, isAppend, isPage, openSubject } from './partitions.fixture.ts';

await withServers(['rabbitmq'], ({ rabbitmq }) => {
  const closing = closeAfterEach();

  test('messages behind the rows of their key count in memory until they are rows, and fewer are received meanwhile', async () => {
    const { consume, hold, insert, publish, partitions, rows } = closing(await openSubject(rabbitmq, 3));
    await insert('slow', ids(4, 'old'));
    const gate = createGate();
    const seen: Job[] = [];
    consume(async (jobs) => void seen.push(...jobs), { admit: gate.admit });
    await eventually(() => gate.asked.size === 1);
    const append = hold(isAppend);
    await publish('slow', 'new0');
    await append.reached;
    const size = partitions.bytes;
    expect(size).toBeGreaterThan(0);
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, partitions.bytes);
    }, 1);
    await Promise.all(ids(60, 'more').map((id) => publish('slow', id)));
    await eventually(() => partitions.bytes > 3 * size);
    await append.release();
    await eventually(async () => (await rows.count()) === 65, { ms: 15_000 });
    clearInterval(watch);
    expect(most).toBeLessThan(30 * size);
    await eventually(() => partitions.bytes === 0);
    gate.open();
    await eventually(() => seen.length === 65, { ms: 15_000 });
    const order = [...ids(4, 'old'), 'new0', ...ids(60, 'more')];
    expect(seen.map(({ id }) => id)).toEqual(order);
  }, 40_000);

  test('a row that is appended while a page is read is no stale read: it is read with the next page at once', async () => {
    const { consume, insert, intercept, publish, rows } = closing(await openSubject(rabbitmq, 3));
    await insert('slow', ids(2, 'old'));
    const [reached, appended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    intercept(async (statement, run) => {
      const found = await run();
      if (isPage(statement)) {
        reached.resolve();
        await appended.promise;
      }
      return found;
    });
    const seen: string[] = [];
    consume(async ([{ id }]) => void seen.push(id));
    await reached.promise;
    await publish('slow', 'new');
    await eventually(async () => (await rows.count()) === 3);
    await nextTurn();
    appended.resolve();
    // The clock stands still: a reread would wait for ever.
    await eventually(() => seen.length === 3);
    expect(seen).toEqual(['old0', 'old1', 'new']);
  });

  test('a message that a former owner had made a row, and not acknowledged, holds up no rows', async () => {
    const { consume, hold, insert, publish } = closing(await openSubject(rabbitmq, 3));
    const old = ids(300, 'old');
    await insert('slow', old);
    const gate = createGate();
    const seen: string[] = [];
    consume(async ([{ id }]) => void seen.push(id), { admit: gate.admit });
    await eventually(() => gate.asked.size === 1);
    const append = hold(isAppend);
    await publish('slow', old.at(-1)!);
    await append.reached;
    await append.release();
    gate.open();
    // The clock stands still: a reread would wait for ever.
    await eventually(() => seen.length === 300);
    expect(seen).toEqual(old);
  });
});

import { expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { Unavailable } from '@wellspring/core/unavailable';
import { openMongo } from '@wellspring/mongodb/client';
import { closeAfterEach, forSuite } from '@wellspring/testing/lifetimes';
import { startMongo } from '@wellspring/testing/servers/mongodb';
import { withPrograms } from '@wellspring/testing/servers/servers';
import { events } from '../collections/events.ts';
import { run } from './store.fixture.ts';
import { createMongoStore } from './store.ts';

await withPrograms(['mongodb'], () => {
  const server = forSuite(() => startMongo({ failPoints: true }));
  const closing = closeAfterEach();

  test.each([
    ['a full disk', 14031],
    ['a quota of the disk', 12501],
    ['a file that cannot grow', 39],
    ['a quota of the hosting service', 8000],
    ['a rate limit of the hosting service', 16500],
    ['blocked writes', 371],
  ])('%s makes the store unavailable for commits and pings, and loses nothing', async (_, errorCode) => {
    const mongo = closing(
      await openMongo({ url: server.url, database: `full-${errorCode}`, log: silentLog }),
    );
    const store = createMongoStore(mongo, { clock: systemClock });
    const admin = mongo.db.client.db('admin');
    const configureFailPoint = 'failCommand';
    expect(await store.commitRun(run('dc_1', 0, [1]))).toBe(true);

    const data = { failCommands: ['insert', 'update'], errorCode };
    await admin.command({ configureFailPoint, mode: 'alwaysOn', data });
    await expect(store.commitRun(run('dc_1', 1, [2]))).rejects.toBeInstanceOf(Unavailable);
    await expect(store.ping()).rejects.toBeInstanceOf(Unavailable);

    await admin.command({ configureFailPoint, mode: 'off' });
    await store.ping();
    expect(await store.commitRun(run('dc_1', 1, [2]))).toBe(true);
    expect(await store.collection(events).count({ partition: 'dc_1/events' })).toBe(2);
    await store.close();
  });
});

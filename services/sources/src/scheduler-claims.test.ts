import { expect, test } from '@jest/globals';
import type { RunJob } from '@wellspring/contract/messages';
import { systemClock } from '@wellspring/core/clock';
import { newSecret } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import { noMetrics } from '@wellspring/core/metrics';
import { openMongo } from '@wellspring/mongodb/client';
import { timers } from '@wellspring/store/collections/sources';
import { createMongoStore } from '@wellspring/store/mongodb';
import { eventually } from '@wellspring/testing/eventually';
import { withServers } from '@wellspring/testing/servers/servers';
import { openPorts } from '@wellspring/testing/service-harness';
import { timer } from './scheduler.fixture.ts';
import { schedulerWorker } from './scheduler.ts';

const TIMERS = 10_000;

await withServers(['mongodb'], ({ mongodb }) => {
  test('two schedulers publish each of 10,000 timers that are due in one second once', async () => {
    const where = { url: mongodb, database: `t${newSecret()}`, log: silentLog, metrics: noMetrics };
    const clients = [await openMongo(where), await openMongo(where)] as const;
    const stores = clients.map((client) => createMongoStore(client, { clock: systemClock }));
    const ports = openPorts();
    const published: RunJob[] = [];
    const queue: typeof ports.queue = {
      ...ports.queue,
      publish: async (_name, { payload }) => void published.push(JSON.parse(payload) as RunJob),
    };
    const now = systemClock.now();
    const rows = stores[0]!.collection(timers);
    await rows.insertMany(
      Array.from({ length: TIMERS }, (_, i) => {
        const id = `dc_${String(i).padStart(10, '0')}`;
        const due_at = now + (i % 1000);
        return timer({ id: `${id}/timer`, source_id: id, interval_seconds: 3600, due_at });
      }),
    );
    const stop = new AbortController();
    const running = stores.map((store) =>
      schedulerWorker({ ...ports, store, queue, clock: systemClock }).run(stop.signal),
    );
    await eventually(() => published.length >= TIMERS, { ms: 60_000 });
    // Until every timer is advanced: nothing is claimed any more.
    await eventually(
      async () => (await rows.count({ lease_until: null, due_at: { gt: now + 1000 } })) === TIMERS,
    );
    stop.abort();
    await Promise.all(running);
    expect(published.length).toBe(TIMERS);
    expect(new Set(published.map(({ run_id }) => run_id)).size).toBe(TIMERS);
    expect(published.filter(({ redelivered }) => redelivered)).toEqual([]);
    await clients[0].db.dropDatabase();
    for (const one of [...stores, ...clients]) await one.close();
    await ports.close();
  }, 90_000);
});

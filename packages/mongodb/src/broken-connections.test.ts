import { expect, test } from '@jest/globals';
import { newSecret } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import { Unavailable } from '@wellspring/core/unavailable';
import { eventually } from '@wellspring/testing/eventually';
import { openNetwork } from '@wellspring/testing/network';
import { withServers } from '@wellspring/testing/servers/servers';
import { openMongo } from './client.ts';
import { translateErrors } from './errors.ts';

const CUTS = 10;
const TURNS = 20;

await withServers(['mongodb'], ({ mongodb: url }) => {
  // The driver wrote to closed sockets and waited forever: patches/mongodb@7.8.0.patch.
  test('an operation that starts while its connection closes is answered or fails', async () => {
    await using network = await openNetwork(url);
    const mongo = await openMongo({ url: network.url, database: `t${newSecret()}`, log: silentLog });
    const rows = mongo.db.collection<{ _id: string }>('rows');
    let [underWay, done] = [0, 0];
    const unexpected: unknown[] = [];
    async function read(): Promise<void> {
      underWay += 1;
      try {
        await translateErrors(rows.find({ _id: { $in: ['a', 'b'] } }).toArray());
      } catch (error) {
        if (!(error instanceof Unavailable)) unexpected.push(error);
      }
      underWay -= 1;
      done += 1;
    }
    try {
      for (let cut = 0; cut < CUTS; cut++) {
        await read();
        network.cut();
        // In one of these turns the socket is closed and the driver does not know it.
        for (let turn = 0; turn < TURNS; turn++) {
          await new Promise(setImmediate);
          void read();
        }
        await eventually(() => underWay === 0, { ms: 15_000 });
      }
      expect(unexpected).toEqual([]);
      expect(done).toBe(CUTS * (TURNS + 1));
    } finally {
      await mongo.close();
    }
  }, 60_000);
});

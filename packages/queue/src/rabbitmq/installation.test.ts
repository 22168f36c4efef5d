import { expect, test } from '@jest/globals';
import { openAmqp } from '@wellspring/amqp/client';
import { newSecret } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import { openDatabase } from '@wellspring/sqlite/database';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import { withServers } from '@wellspring/testing/servers/servers';
import { layout } from './collections.ts';
import { assertInstallation } from './installation.ts';

await withServers(['rabbitmq'], ({ rabbitmq }) => {
  /** Installations on one vhost, with a database each. */
  async function openVhost() {
    const amqp = await openAmqp({ url: rabbitmq, log: silentLog });
    const databases = [openDatabase(':memory:'), openDatabase(':memory:')];
    const prefix = `t${newSecret()}.`;
    const [first, second] = databases.map((db) => {
      const store = createEmbeddedStore(db);
      return {
        rows: store.collection(layout),
        start: (partitions = 8) => assertInstallation({ store, amqp, partitions, prefix }),
      };
    });
    return {
      first: first!,
      second: second!,
      async [Symbol.asyncDispose]() {
        await amqp.close();
        for (const db of databases) await db.close();
      },
    };
  }

  test('an installation does not start on the vhost of another one', async () => {
    await using vhost = await openVhost();
    await vhost.first.start();
    await expect(vhost.second.start()).rejects.toThrow('belongs to another installation');
    await vhost.first.start();
  });

  test('processes of an installation that start at once reserve its vhost together', async () => {
    await using vhost = await openVhost();
    await Promise.all(Array.from({ length: 8 }, () => vhost.first.start()));
    expect(await vhost.first.rows.list()).toHaveLength(1);
  });

  test('data of an earlier version get an id, which stays', async () => {
    await using vhost = await openVhost();
    await vhost.first.rows.insert({ id: 'layout', partitions: 8 });
    await Promise.all([vhost.first.start(), vhost.first.start()]);
    const [row] = await vhost.first.rows.list();
    expect(row).toMatchObject({ partitions: 8, installation: expect.any(String) });
    await vhost.first.start();
    expect(await vhost.first.rows.list()).toEqual([row]);
  });

  test('a process with another number of partitions does not start', async () => {
    await using vhost = await openVhost();
    await vhost.first.start();
    await expect(vhost.first.start(9)).rejects.toThrow('have 8 partitions, not 9');
  });
});

import { createServer, type Socket } from 'node:net';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import type { Metrics } from '@wellspring/core/metrics';
import { StartRefused } from '@wellspring/core/start-refused';
import { Unavailable } from '@wellspring/core/unavailable';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach, forSuite } from '@wellspring/testing/lifetimes';
import { listLog } from '@wellspring/testing/list-log';
import { startMongo } from '@wellspring/testing/servers/mongodb';
import { withPrograms } from '@wellspring/testing/servers/servers';
import { BSON } from 'mongodb';
import { MAX_OPERATION_MS, type MongoTarget, openMongo } from './client.ts';
import { duplicatesOf, translateErrors } from './errors.ts';

/** Answers every command with the handshake or with an error. */
async function fakeServer(reply: (command: BSON.Document) => BSON.Document) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    let received = Buffer.alloc(0);
    socket
      .on('error', () => {})
      .on('data', (data: Buffer) => {
        received = Buffer.concat([received, data]);
        while (received.length >= 16 && received.length >= received.readInt32LE(0)) {
          const message = received.subarray(0, received.readInt32LE(0));
          received = received.subarray(message.length);
          const isQuery = message.readInt32LE(12) === 2004;
          const start = isQuery ? message.indexOf(0, 20) + 9 : 21;
          const command = BSON.deserialize(message.subarray(start, start + message.readInt32LE(start)));
          const body = BSON.serialize({ ok: 1, ...reply(command) });
          const head = Buffer.alloc(isQuery ? 36 : 21);
          head.writeInt32LE(head.length + body.length, 0);
          head.writeInt32LE(message.readInt32LE(4), 8);
          head.writeInt32LE(isQuery ? 1 : 2013, 12);
          if (isQuery) head.writeInt32LE(1, 32);
          socket.write(Buffer.concat([head, body]));
        }
      });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  return {
    url: `127.0.0.1:${port}`,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

describe('start fails without retry for', () => {
  const hello = { isWritablePrimary: true, ismaster: true, minWireVersion: 0, maxBsonObjectSize: 16_777_216 };

  test('a server that is too old', async () => {
    const server = await fakeServer(() => ({ ...hello, maxWireVersion: 7 }));
    await expect(openMongo({ url: `mongodb://${server.url}/x`, log: silentLog })).rejects.toThrow(
      /Unsupported MongoDB server: .*requires at least/,
    );
    await server.close();
  });

  test('refused credentials, which the error does not contain', async () => {
    const server = await fakeServer((command) =>
      'saslStart' in command
        ? { ok: 0, code: 18, codeName: 'AuthenticationFailed', errmsg: 'Authentication failed.' }
        : { ...hello, maxWireVersion: 21, saslSupportedMechs: ['SCRAM-SHA-256'] },
    );
    const url = `mongodb://someone:secret-password@${server.url}/x`;
    const error = await openMongo({ url, log: silentLog }).catch((reason: unknown) => reason);
    expect(String(error)).toMatch(/MongoDB refuses the connection: Authentication failed/);
    expect(String((error as Error).stack)).not.toContain('secret-password');
    await server.close();
  });

  test('credentials that are refused once it is connected', async () => {
    const server = await fakeServer((command) =>
      'ping' in command
        ? { ok: 0, code: 18, codeName: 'AuthenticationFailed', errmsg: 'Authentication failed.' }
        : { ...hello, maxWireVersion: 21 },
    );
    await expect(openMongo({ url: `mongodb://${server.url}/x`, log: silentLog })).rejects.toThrow(
      /MongoDB refuses the connection: .*Authentication failed\./,
    );
    await server.close();
  });

  test.each(['mongodb://', 'mongodb://host/name?unknown=1'])('the malformed URL %s', async (url) => {
    const invalid = openMongo({ url, log: silentLog });
    await expect(invalid).rejects.toThrow(/Invalid MongoDB URL/);
    await expect(invalid).rejects.toThrow(StartRefused);
  });
});

await withPrograms(['mongodb'], () => {
  const server = forSuite(startMongo);
  const closing = closeAfterEach();

  const open = async (options: Partial<MongoTarget> = {}) =>
    closing(await openMongo({ url: server.url, log: silentLog, ...options }));

  test('the database is that of the URL, or the default name', async () => {
    expect((await open()).db.databaseName).toBe('wellspring');
    expect((await open({ url: server.url.replace('/?', '/named?') })).db.databaseName).toBe('named');
    expect((await open({ database: 'other' })).db.databaseName).toBe('other');
  });

  test('statements are counted by command and collection', async () => {
    const counted: string[] = [];
    const metrics = {
      counter: (name: string) => ({
        inc: ({ command, collection }: Record<string, string> = {}) =>
          counted.push(`${name} ${command} ${collection}`),
      }),
    } as unknown as Metrics;
    const { db } = await open({ metrics, database: 'counted' });
    const rows = db.collection<{ _id: number }>('rows');
    await rows.insertMany([{ _id: 1 }, { _id: 2 }, { _id: 3 }]);
    await rows.find({}, { batchSize: 2 }).toArray();
    expect(counted).toEqual(
      ['insert', 'find', 'getMore'].map((one) => `wellspring_store_statements_total ${one} rows`),
    );
  });

  test('a duplicate is distinguished from other refusals, with its index in the batch', async () => {
    const rows = (await open({ database: 'duplicates' })).db.collection<{ _id: number; n?: number }>('rows');
    await rows.insertOne({ _id: 1 });
    const one = await rows.insertOne({ _id: 1 }).catch(duplicatesOf);
    expect(one).toMatchObject([{ index: 0 }]);
    const batch = [{ _id: 0 }, { _id: 1 }, { _id: 2 }, { _id: 1 }];
    const some = await rows.insertMany(batch, { ordered: false }).catch(duplicatesOf);
    expect((some as { index: number }[]).map(({ index }) => index)).toEqual([1, 3]);
    expect(await rows.countDocuments()).toBe(3);
    const broken = rows.updateOne({ _id: 1 }, { $rename: 1 } as never).catch(duplicatesOf);
    await expect(broken).rejects.toThrow();
  });

  test.each([
    ['another replica set', () => server.url.replace(/replicaSet=\w+/, 'replicaSet=other')],
    ['a name without records', () => 'mongodb+srv://nowhere.invalid/'],
  ])(
    'a start that waits because of %s says so in the log',
    async (_, urlOf) => {
      const { log, lines } = listLog();
      const abort = new AbortController();
      const given = openMongo({ url: urlOf(), log, signal: abort.signal });
      try {
        await eventually(() => lines.includes('mongodb.down'), { ms: 20_000 });
      } finally {
        abort.abort(new Error('stopped'));
        await expect(given).rejects.toThrow('stopped');
      }
      expect(lines).toEqual(['mongodb.down']);
    },
    30_000,
  );

  describe('an outage', () => {
    beforeEach(() => server.start());

    test('start waits for an unavailable server until the signal aborts', async () => {
      await server.kill();
      const { log, lines } = listLog();
      const abort = new AbortController();
      const given = openMongo({ url: server.url, log, signal: abort.signal });
      await eventually(() => lines.includes('mongodb.down'));
      abort.abort(new Error('stopped'));
      await expect(given).rejects.toThrow('stopped');

      const begun = performance.now();
      const waiting = open();
      // Longer than the server selection of the driver.
      await eventually(() => performance.now() - begun > 5_000);
      await server.start();
      await (await waiting).ping();
    }, 30_000);

    test('operations fail in bounded time, and recover within 5 s of the return', async () => {
      const { log, lines } = listLog();
      const mongo = await open({ log });
      const rows = mongo.db.collection<{ _id: number }>('outage');
      await rows.insertOne({ _id: 1 });
      await server.kill();
      const begun = performance.now();
      const works = [rows.insertOne({ _id: 2 }), rows.findOne({}), mongo.ping()];
      await Promise.all(
        works.map((work) => expect(translateErrors<unknown>(work)).rejects.toBeInstanceOf(Unavailable)),
      );
      expect(performance.now() - begun).toBeLessThan(MAX_OPERATION_MS);
      await eventually(() => !mongo.isUp);
      await server.start();
      const back = performance.now();
      await eventually(() => mongo.ping().then(() => true));
      expect(performance.now() - back).toBeLessThan(5_000);
      expect(await rows.findOne({ _id: 1 })).toEqual({ _id: 1 });
      expect(lines).toEqual(['mongodb.down', 'mongodb.up']);
    }, 60_000);
  });
});

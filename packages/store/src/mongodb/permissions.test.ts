import { expect, test } from '@jest/globals';
import { createGridFsBlob } from '@wellspring/blob/gridfs';
import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { AccessDenied, Unavailable } from '@wellspring/core/unavailable';
import { type Mongo, openMongo } from '@wellspring/mongodb/client';
import { closeAfterEach, forSuite } from '@wellspring/testing/lifetimes';
import { startMongo } from '@wellspring/testing/servers/mongodb';
import { withPrograms } from '@wellspring/testing/servers/servers';
import { collections } from '../collections/all.ts';
import { events } from '../collections/events.ts';
import { installation } from '../collections/installation.ts';
import { run } from './store.fixture.ts';
import { createMongoStore } from './store.ts';

/** Permissions required by docs/operations.md: read and write one database. */
await withPrograms(['mongodb'], () => {
  const ROOT = { user: 'root', password: 'of all/@:' };
  const server = forSuite(() => startMongo({ root: ROOT }));
  const closing = closeAfterEach();

  async function open(user: string, password: string, authSource: string): Promise<Mongo> {
    const credentials = `${encodeURIComponent(user)}:${encodeURIComponent(password)}`;
    const url = server.url
      .replace('://', `://${credentials}@`)
      .replace('/?', `/own?authSource=${authSource}&`);
    return closing(await openMongo({ url, log: silentLog }));
  }

  test('collections, commits and files need only readWrite; a wrong password is reported', async () => {
    const root = await open(ROOT.user, ROOT.password, 'admin');
    await root.db.command({ createUser: 'platform', pwd: 'secret', roles: ['readWrite'] });
    await expect(open('platform', 'wrong', 'own')).rejects.toThrow(/refuses the connection/);

    const mongo = await open('platform', 'secret', 'own');
    const store = createMongoStore(mongo, { clock: systemClock });
    for (const definition of collections) expect(await store.collection(definition).list()).toEqual([]);
    expect(await store.commitRun(run('dc_1', 0, [1, 2]))).toBe(true);
    expect(await store.collection(events).removeWhere({ partition: 'dc_1/events' })).toBe(2);
    await store.close();

    const blob = createGridFsBlob(mongo, { clock: systemClock });
    const id = await blob.put(Buffer.from('bytes'), { ttlMs: 60_000 });
    expect(Buffer.from((await blob.get(id))!.bytes).toString()).toBe('bytes');
    await blob.remove(id);
  });

  test('an operation without the right to it names MongoDB and the role, not the values of the command', async () => {
    const root = await open(ROOT.user, ROOT.password, 'admin');
    await root.db.command({ createUser: 'reader', pwd: 'secret', roles: ['read'] });
    await root.db.command({ createUser: 'nobody', pwd: 'secret', roles: [] });
    const store = async (user: string) =>
      createMongoStore(await open(user, 'secret', 'own'), { clock: systemClock });
    const row = { id: 'root_key', sealed: 'a secret' } as const;
    const expected =
      /^AccessDenied: MongoDB refuses an operation: not authorized on own .*the role readWrite/;
    for (const work of [
      (await store('nobody')).collection(installation).list(),
      (await store('reader')).collection(installation).insertMany([row]),
    ]) {
      const failure = String(await work.catch((error: unknown) => error));
      expect(failure).toMatch(expected);
      expect(failure).not.toMatch('{');
    }
  });

  test('a right that is revoked while running makes the store unavailable until it is granted again', async () => {
    const root = await open(ROOT.user, ROOT.password, 'admin');
    await root.db.command({ createUser: 'revoked', pwd: 'secret', roles: ['readWrite'] });
    const store = createMongoStore(await open('revoked', 'secret', 'own'), { clock: systemClock });
    expect(await store.commitRun(run('dc_2', 0, [1]))).toBe(true);

    await root.db.command({ revokeRolesFromUser: 'revoked', roles: ['readWrite'] });
    await expect(store.commitRun(run('dc_2', 1, [2]))).rejects.toBeInstanceOf(Unavailable);
    await expect(store.collection(events).list()).rejects.toBeInstanceOf(Unavailable);
    await expect(store.ping()).rejects.toBeInstanceOf(Unavailable);

    await root.db.command({ grantRolesToUser: 'revoked', roles: ['readWrite'] });
    await store.ping();
    expect(await store.commitRun(run('dc_2', 1, [2]))).toBe(true);
    expect(await store.collection(events).count({ partition: 'dc_2/events' })).toBe(2);
    await store.close();
  });

  test('a password that is changed while running makes the store unavailable', async () => {
    const root = await open(ROOT.user, ROOT.password, 'admin');
    await root.db.command({ createUser: 'rotated', pwd: 'secret', roles: ['readWrite'] });
    const store = createMongoStore(await open('rotated', 'secret', 'own'), { clock: systemClock });
    await root.db.command({ updateUser: 'rotated', pwd: 'another' });
    // More than connections that are open already.
    const reads = await Promise.allSettled(collections.map((one) => store.collection(one).list()));
    const failures = reads.flatMap((read) => (read.status === 'rejected' ? [read.reason] : []));
    const denied = failures.find((failure) => failure instanceof AccessDenied);
    expect(denied?.message).toMatch(/refuses the user in the URL: Authentication failed\./);
    // The driver also ends the attempts of others to connect.
    for (const failure of failures) expect(failure).toBeInstanceOf(Unavailable);
    await store.close();
  });
});

import { silentLog } from '@wellspring/core/log';
import { openMongo } from '@wellspring/mongodb/client';
import { freePort } from '../free-port.ts';
import { tempDir } from '../temp-dir.ts';
import { mongod } from './mongod.ts';
import type { TestServer } from './server.ts';
import { startServer } from './start-server.ts';

const REPLICA_SET = 'wellspring';
const NOT_YET_INITIALIZED = 94;

/**
 * A MongoDB of one's own: a replica set of one server. What it acknowledged outlives `kill`.
 * @throws Error with its output when it does not start
 */
export async function startMongo(): Promise<TestServer> {
  const { program, env } = await mongod();
  const directory = await tempDir();
  const port = await freePort();
  const command = [
    program,
    ...['--bind_ip', '127.0.0.1', '--port', `${port}`, '--nounixsocket'],
    ...['--dbpath', directory.path, '--wiredTigerCacheSizeGB', '0.5'],
    ...[
      '--replSet',
      REPLICA_SET,
      '--oplogSize',
      '256',
      '--setParameter',
      'diagnosticDataCollectionEnabled=false',
    ],
    '--quiet',
  ];
  return startServer({
    name: 'MongoDB',
    url: `mongodb://127.0.0.1:${port}/?replicaSet=${REPLICA_SET}`,
    command: () => command,
    directory,
    env,
    answers: () => answers(port),
    patience: { ms: 60_000, every: 50 },
  });
}

/** Whether it takes writes; a new one is told that it is a replica set by itself. */
async function answers(port: number): Promise<boolean> {
  const host = `127.0.0.1:${port}`;
  const signal = AbortSignal.timeout(2_000);
  const url = `mongodb://${host}/?directConnection=true`;
  const mongo = await openMongo({ url, database: 'admin', log: silentLog, signal }).catch(() => undefined);
  if (!mongo) return false;
  try {
    const { isWritablePrimary } = await mongo.db.command({ hello: 1 });
    if (isWritablePrimary) return true;
    await mongo.db.command({ replSetGetStatus: 1 }).catch(async (error: { code?: number }) => {
      if (error.code !== NOT_YET_INITIALIZED) return;
      const config = { _id: REPLICA_SET, members: [{ _id: 0, host }] };
      await mongo.db.command({ replSetInitiate: config });
    });
    return false;
  } catch {
    return false;
  } finally {
    await mongo.close();
  }
}

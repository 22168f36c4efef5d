import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { silentLog } from '@wellspring/core/log';
import { type Mongo, openMongo } from '@wellspring/mongodb/client';
import { eventually } from '../eventually.ts';
import { freePort } from '../free-port.ts';
import { tempDir } from '../temp-dir.ts';
import { type Mongod, mongod } from './mongod.ts';
import type { TestServer } from './server.ts';
import { startServer } from './start-server.ts';

const NAME = 'wellspring';
const START_TIMEOUT_MS = 60_000;
const REPLY_TIMEOUT_MS = 3_000;
/** Silence of the primary after which the others elect a new one; MongoDB's default is 10 s. */
const ELECTION_MS = 2_000;

interface Member extends TestServer {
  host: string;
}

/** A replica set. Acknowledged writes survive the `kill` of a minority, or of a single member. */
export interface ReplicaSet extends TestServer {
  /** SIGKILL to the primary; `start` restarts it and waits until the set accepts writes. */
  kill(): Promise<void>;
  /** SIGSTOP to the primary; `resume` continues it. */
  freeze(): Promise<void>;
  /** Makes the primary step down. */
  stepDown(): Promise<void>;
}

export interface MongoOptions {
  /** Size of the replica set; default 1. */
  members?: number;
  /** Enables authentication with this root user of the database `admin`; default: none. */
  root?: { user: string; password: string };
  /** Allows `configureFailPoint`. */
  failPoints?: boolean;
}

/** Starts a separate MongoDB. @throws Error with its output when it does not start */
export async function startMongo({
  members: count = 1,
  root,
  failPoints = false,
}: MongoOptions = {}): Promise<ReplicaSet> {
  const program = await mongod();
  await using stack = new AsyncDisposableStack();
  const starting = Array.from({ length: count }, async () => {
    const member = await startMember(program, { asksForCredentials: root !== undefined, failPoints });
    stack.defer(() => member.dispose());
    return member;
  });
  // If one member does not start, the others are stopped.
  await Promise.allSettled(starting);
  const members = await Promise.all(starting);
  const hosts = members.map(({ host }) => host);
  const url = `mongodb://${hosts.join()}/?replicaSet=${NAME}`;
  await ask(members[0]!.url, (admin) =>
    admin.command({
      replSetInitiate: {
        _id: NAME,
        members: hosts.map((host, _id) => ({ _id, host })),
        settings: { electionTimeoutMillis: ELECTION_MS, heartbeatIntervalMillis: ELECTION_MS / 4 },
      },
    }),
  );
  await takesWrites(url);
  if (root) {
    const { user, password } = root;
    // MongoDB lets a local client create the first user without credentials.
    await ask(url, (admin) => admin.command({ createUser: user, pwd: password, roles: ['root'] }));
  }
  stack.move();

  let hit: Member | undefined;
  let frozen: Member | undefined;
  const primary = (): Promise<Member> =>
    eventually(
      async () => {
        for (const member of members) if (count === 1 || (await isPrimary(member))) return member;
        return false;
      },
      { ms: START_TIMEOUT_MS },
    );
  return {
    name: 'MongoDB',
    url,
    async kill() {
      hit = await primary();
      await hit.kill();
    },
    async start() {
      await hit?.start();
      hit = undefined;
      await takesWrites(url);
    },
    async freeze() {
      frozen = await primary();
      await frozen.freeze();
    },
    resume() {
      frozen?.resume();
      frozen = undefined;
    },
    async stepDown() {
      const member = await primary();
      // It steps down only if another member is up to date.
      await eventually(
        () => ask(member.url, (admin) => admin.command({ replSetStepDown: 10 })).then(() => true),
        { ms: START_TIMEOUT_MS },
      );
    },
    async dispose() {
      await Promise.all(members.map((member) => member.dispose()));
    },
  };
}

async function startMember(
  { program, env }: Mongod,
  { asksForCredentials, failPoints }: { asksForCredentials: boolean; failPoints: boolean },
): Promise<Member> {
  const directory = await tempDir();
  const keyFile = join(directory.path, 'key');
  if (asksForCredentials) await writeFile(keyFile, 'wellspring', { mode: 0o600 });
  const port = await freePort();
  const host = `127.0.0.1:${port}`;
  const command = [
    program,
    ...(asksForCredentials ? ['--keyFile', keyFile] : []),
    ...(failPoints ? ['--setParameter', 'enableTestCommands=1'] : []),
    ...['--bind_ip', '127.0.0.1', '--port', `${port}`, '--nounixsocket', '--quiet'],
    ...['--dbpath', directory.path, '--wiredTigerCacheSizeGB', '0.5'],
    ...['--replSet', NAME, '--oplogSize', '256', '--setParameter', 'diagnosticDataCollectionEnabled=false'],
  ];
  const url = `mongodb://${host}/?directConnection=true`;
  const server = await startServer({
    name: 'MongoDB',
    url,
    command,
    directory,
    env,
    answers: () => ask(url, async () => true).catch(() => false),
    checks: { ms: START_TIMEOUT_MS, every: 50 },
  });
  return { ...server, host };
}

/** Sends a command to a member or the primary. @throws Error on timeout */
async function ask<T>(url: string, question: (admin: Mongo['db']) => Promise<T>): Promise<T> {
  const signal = AbortSignal.timeout(REPLY_TIMEOUT_MS);
  const mongo = await openMongo({ url, database: 'admin', log: silentLog, signal });
  try {
    return await question(mongo.db);
  } finally {
    await mongo.close();
  }
}

const isPrimary = (member: Member): Promise<boolean> =>
  ask(member.url, async (admin) => (await admin.command({ hello: 1 })).isWritablePrimary === true).catch(
    () => false,
  );

/** Waits for a primary. */
async function takesWrites(url: string): Promise<void> {
  await eventually(() => ask(url, async () => true), { ms: START_TIMEOUT_MS });
}

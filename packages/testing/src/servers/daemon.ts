import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startContainer } from './containers.ts';
import { mongod } from './mongod.ts';
import { startMongo } from './mongodb.ts';
import { ensurePrograms } from './programs.ts';
import { startRabbit } from './rabbitmq.ts';
import { startRedis } from './redis.ts';
import { startS3 } from './s3.ts';
import type { ServerName, TestServer } from './server.ts';

/**
 * Server daemon: the process that runs the servers which the suites of one jest run share. It writes its port to
 * standard output, and stops with its servers when its standard input ends, so with the process that started it.
 *
 * `POST /servers/redis` starts a server on first use and returns its URL; `POST /programs/redis` installs its programs
 * for suites that start servers themselves. Both answer `{"url"?, "missing"?}`, or 500 with the error.
 * `GET /missing` returns the reasons of missing servers by name.
 */
interface Answer {
  url?: string;
  /** Why the server is unavailable. */
  missing?: string;
}

const VARIABLES: Record<ServerName, string> = {
  rabbitmq: 'WELLSPRING_TEST_AMQP_URL',
  redis: 'WELLSPRING_TEST_REDIS_URL',
  mongodb: 'WELLSPRING_TEST_MONGODB_URL',
  s3: 'WELLSPRING_TEST_S3_URL',
};
const LAUNCHERS: Record<ServerName, () => Promise<TestServer>> = {
  rabbitmq: startRabbit,
  redis: startRedis,
  mongodb: startMongo,
  s3: startS3,
};
/** Programs that are downloaded, for some systems only. */
const FETCHED: Partial<Record<ServerName, () => Promise<unknown>>> = { mongodb: mongod };

const endings: (() => Promise<void>)[] = [];
const missing: Record<string, string> = {};
const answers = new Map<string, Promise<Answer>>();

async function serverOf(name: ServerName): Promise<Answer> {
  const given = process.env[VARIABLES[name]];
  if (given) return { url: given };
  const container = await startContainer(name);
  if (container) {
    endings.push(container.stop);
    return { url: container.url };
  }
  const programs = await answer(`/programs/${name}`);
  if (programs?.missing) return programs;
  const server = await LAUNCHERS[name]();
  endings.push(server.dispose);
  return { url: server.url };
}

async function programsOf(name: ServerName): Promise<Answer> {
  const reason = (await ensurePrograms(name)) ?? (await FETCHED[name]?.().then(() => undefined, String));
  return reason ? { missing: reason } : {};
}

/** Caches the answer of each path. */
function answer(path: string): Promise<Answer> | undefined {
  const [, kind, name] = path.split('/') as [string, string, ServerName];
  if (!Object.hasOwn(LAUNCHERS, name) || (kind !== 'servers' && kind !== 'programs')) return undefined;
  let found = answers.get(path);
  if (!found) {
    found = kind === 'servers' ? serverOf(name) : programsOf(name);
    answers.set(path, found);
    found.then(
      (given) => {
        if (given.missing) missing[name] = given.missing;
      },
      () => {},
    );
  }
  return found;
}

const listener = createServer((req, res) => {
  req.resume();
  const say = (status: number, body: unknown) => res.writeHead(status).end(JSON.stringify(body));
  if (req.url === '/missing') return say(200, missing);
  const given = answer(req.url ?? '');
  if (!given) return say(404, {});
  given.then(
    (value) => say(200, value),
    (error: unknown) => say(500, { error: String(error) }),
  );
});

let ending = false;
async function end(): Promise<void> {
  if (ending) return;
  ending = true;
  listener.close();
  // Servers that are still starting are stopped, too.
  await Promise.allSettled(answers.values());
  await Promise.allSettled(endings.map((dispose) => dispose()));
  process.exit();
}

// Ctrl-C reaches every process of a run; the daemon waits for the end of its standard input.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
process.stdin.on('end', end).on('error', end).resume();
listener.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${(listener.address() as AddressInfo).port}\n`);
});

import { type ReplicaSet, startMongo } from './mongodb.ts';
import { ensurePrograms } from './programs.ts';
import { type RabbitCluster, startRabbit } from './rabbitmq.ts';
import { startRedis } from './redis.ts';
import type { TestServer } from './server.ts';

/** The servers of the distributed mode. */
export interface ServerSet extends AsyncDisposable {
  rabbit: RabbitCluster;
  redis: TestServer;
  mongo: ReplicaSet;
  urls: { amqp: string; redis: string; mongodb: string };
}

export interface ServerSetOptions {
  /** Nodes of RabbitMQ; default 1. */
  rabbitNodes?: number;
  /** Members of the MongoDB replica set; default 1. */
  mongoMembers?: number;
}

/** Installs missing programs. @throws Error if they cannot be installed, or a server does not start */
export async function startServers({
  rabbitNodes = 1,
  mongoMembers = 1,
}: ServerSetOptions = {}): Promise<ServerSet> {
  for (const name of ['rabbitmq', 'redis', 'mongodb'] as const) {
    const missing = await ensurePrograms(name);
    if (missing !== undefined) throw new Error(missing);
  }
  await using stack = new AsyncDisposableStack();
  const started = async <T extends TestServer>(starting: Promise<T>): Promise<T> => {
    const server = await starting;
    stack.defer(() => server.dispose());
    return server;
  };
  const starting = [
    started(startRabbit({ nodes: rabbitNodes })),
    started(startRedis()),
    started(startMongo({ members: mongoMembers })),
  ] as const;
  // If one server does not start, the others are stopped.
  await Promise.allSettled(starting);
  const [rabbit, redis, mongo] = await Promise.all(starting);
  const all = stack.move();
  return {
    rabbit,
    redis,
    mongo,
    urls: { amqp: rabbit.url, redis: redis.url, mongodb: mongo.url },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

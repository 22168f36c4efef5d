import { type ReplicaSet, startMongo } from './mongodb.ts';
import { startRabbit } from './rabbitmq.ts';
import { startRedis } from './redis.ts';
import type { TestServer } from './server.ts';

/** All that the distributed mode stands on. */
export interface ServerSet extends AsyncDisposable {
  rabbit: TestServer;
  redis: TestServer;
  mongo: ReplicaSet;
  urls: { amqp: string; redis: string; mongodb: string };
}

/** @param members of the replica set of MongoDB */
export async function startServers(members = 1): Promise<ServerSet> {
  await using stack = new AsyncDisposableStack();
  const started = async <T extends TestServer>(starting: Promise<T>): Promise<T> => {
    const server = await starting;
    stack.defer(() => server.dispose());
    return server;
  };
  const starting = [started(startRabbit()), started(startRedis()), started(startMongo({ members }))] as const;
  // Those that were started are ended when another one does not start.
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

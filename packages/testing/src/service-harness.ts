import { join } from 'node:path';
import { afterEach, beforeEach } from '@jest/globals';
import { createEmbeddedCall } from '@wellspring/call/embedded';
import type { Principal } from '@wellspring/contract/principal';
import { type Hold, UNLIMITED } from '@wellspring/core/byte-budget';
import { type Clock, systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { createMemory } from '@wellspring/core/memory';
import { noMetrics } from '@wellspring/core/metrics';
import { createSeal } from '@wellspring/core/seal';
import { createRouter } from '@wellspring/http/bind';
import { PRINCIPAL_HEADER, signPrincipal } from '@wellspring/http/principal';
import { createEmbeddedPubSub } from '@wellspring/pubsub/embedded';
import { createEmbeddedQueue } from '@wellspring/queue/embedded';
import type { Deps } from '@wellspring/runtime/deps';
import type { Service } from '@wellspring/runtime/service';
import { type Database, openDatabase } from '@wellspring/sqlite/database';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import { type HttpServer, type Response, send, startHttpServer } from './http.ts';
import { OWNER } from './rows.ts';
import { type TempDir, tempDir } from './temp-dir.ts';

export const seal = createSeal(['a root key of the tests']);
export const ORG = 'o_0000000001';
export const user = (user_id: string, ...org_ids: string[]): Extract<Principal, { kind: 'user' }> => ({
  kind: 'user',
  user_id,
  key_id: 'key_0000000001',
  org_ids,
});
/** A member of `ORG`. */
export const ALICE = user(OWNER, ORG);
export const BOB = user('u_0000000002');

/** Dependencies of services on embedded adapters. */
export interface Ports
  extends Pick<Deps, 'store' | 'queue' | 'pubsub' | 'call' | 'log' | 'metrics' | 'memory' | 'seal'> {
  db: Database;
  close(): Promise<void>;
}

/** @param path of the database; default: in memory */
export function openPorts({ path = ':memory:', clock = systemClock } = {}): Ports {
  const log = silentLog;
  const memory = createMemory(1024 ** 3);
  const db = openDatabase(path);
  const store = createEmbeddedStore(db);
  const queue = createEmbeddedQueue(db, { clock, log, memory });
  const pubsub = createEmbeddedPubSub({ log });
  const call = createEmbeddedCall({ log });
  return {
    ...{ db, store, queue, pubsub, call, log, metrics: noMetrics, memory, seal },
    async close() {
      for (const adapter of [call, pubsub, queue, store]) await adapter.close();
      await db.close();
    },
  };
}

/** Runs the workers of a service. The result stops them and disposes of the service. */
export function runService({ workers = [], dispose }: Service): () => Promise<void> {
  const stopping = new AbortController();
  const over = Promise.all(workers.map((worker) => worker.run(stopping.signal)));
  return async () => {
    stopping.abort();
    await over;
    await dispose?.();
  };
}

export interface Harness<C extends Clock = Clock> extends Ports {
  clock: C;
  /** Runs the workers of a service until `reopen` or the end of the test. */
  run(service: Service): void;
  /** Stops the services and reopens the database file, like a restarted process. */
  reopen(): Promise<void>;
}

/** Ports on a new database file for each test. */
export function useHarness<C extends Clock = Clock>(newClock = () => systemClock as C): Harness<C> {
  let directory: TempDir;
  const stops: (() => Promise<void>)[] = [];
  const open = () =>
    Object.assign(t, openPorts({ path: join(directory.path, 'wellspring.db'), clock: t.clock }));
  const close = async () => {
    await Promise.all(stops.splice(0).map((stop) => stop()));
    await t.close();
  };
  const t = {
    run: (service) => void stops.push(runService(service)),
    async reopen() {
      await close();
      open();
    },
  } as Harness<C>;
  beforeEach(async () => {
    directory = await tempDir();
    t.clock = newClock();
    open();
  });
  afterEach(async () => {
    await close();
    await directory.remove();
  });
  return t;
}

/** A server with the routes of a service. */
export function serveApi({ routes = [] }: Service): Promise<HttpServer> {
  const principalKeys = seal.keysFor('principal');
  return startHttpServer(createRouter(routes, { principalKeys, log: silentLog, memory: createMemory(1) }));
}

/** Headers of requests that the gateway would sign. */
export const signed = (as: Principal) => ({
  [PRINCIPAL_HEADER]: signPrincipal(as, seal.keysFor('principal')[0]!),
});

/** Sends a request to the routes of a service; `path` is below `/v1`. */
export async function callApi(
  service: Service,
  method: string,
  path: string,
  { body, as = ALICE }: { body?: object; as?: Principal } = {},
): Promise<Response> {
  await using server = await serveApi(service);
  return await send(server.port, method, `/v1${path}`, { headers: signed(as), body });
}

/** Calls the handler of an endpoint without HTTP. */
export async function invoke<T>(
  { routes = [] }: Service,
  operationId: string,
  params: Record<string, string>,
  input: Record<string, unknown>,
  principal: Principal = ALICE,
  hold: Hold = UNLIMITED,
): Promise<T> {
  const { handle } = routes.find(({ endpoint }) => endpoint.operationId === operationId)!;
  const signal = new AbortController().signal;
  return (await handle({
    params,
    input,
    principal,
    requestId: 'req_1',
    signal,
    hold,
    ignore: () => {},
  } as never)) as T;
}

import { createHash } from 'node:crypto';
import {
  CALLS,
  type ConfigureCall,
  type ForgetCall,
  type HookCall,
  type ResolveCall,
} from '@wellspring/contract/calls';
import type { Definition, HookName, PropDescriptor } from '@wellspring/contract/definition';
import type { Principal } from '@wellspring/contract/principal';
import { type Clock, systemClock } from '@wellspring/core/clock';
import { newId } from '@wellspring/core/ids';
import { Unavailable } from '@wellspring/core/unavailable';
import type { Config } from '@wellspring/runtime/config';
import { components } from '@wellspring/store/collections/components';
import { deployments, endpoints, sources, timers } from '@wellspring/store/collections/sources';
import { orgs, users } from '@wellspring/store/collections/users';
import type { Collection, CollectionDefinition, Row, Store } from '@wellspring/store/port';
import { orgRow, userRow } from '@wellspring/testing/rows';
import { ALICE, BOB, invoke, ORG, openPorts } from '@wellspring/testing/service-harness';
import { createSourcesService } from './service.ts';

export type HookAct = (hook: HookName, deploymentId: string, sourceId: string) => Promise<void> | void;

const WRITES = new Set([
  'insert',
  'insertMany',
  'replace',
  'patch',
  'increment',
  'remove',
  'removeWhere',
  'claim',
]);

/** An action that is done once after it was set. */
function createOnce() {
  let action = async () => {};
  return {
    set(next: () => Promise<void>) {
      action = next;
    },
    async run() {
      const now = action;
      action = async () => {};
      await now();
    },
  };
}

/** Fails every access from the n-th write on, like a process that is gone. */
function dyingStore(store: Store, writesLeft: () => number, write: () => Promise<void>): Store {
  const alive = () => {
    if (writesLeft() <= 0) throw new Error('this process is dead');
  };
  const wrap = <T extends Row>(collection: Collection<T>): Collection<T> =>
    new Proxy(collection, {
      get(target, name) {
        const method = target[name as keyof Collection<T>] as (...args: unknown[]) => Promise<unknown>;
        return async (...args: unknown[]) => {
          alive();
          if (WRITES.has(String(name))) await write();
          return method.apply(target, args);
        };
      },
    });
  return {
    ...store,
    collection: <T extends Row>(definition: CollectionDefinition<T>) => wrap(store.collection(definition)),
  };
}

/**
 * The sources service on real embedded adapters, with the users ALICE and BOB and the organization ORG. Code is the JSON text of a definition (other code, that of the HTTP
 * trigger of a workflow, defines an HTTP interface), and what the hooks of the
 * runner do is up to the test: these tests check the calls to it, and how its answers are used.
 */
export async function createTestbed(mode: Config['mode'] = 'embedded') {
  const ports = openPorts();
  const { store, call, queue } = ports;
  for (const { user_id } of [ALICE, BOB])
    await store.collection(users).insert(userRow({ id: user_id, username: user_id }));
  await store.collection(orgs).insert(orgRow(ORG));
  const stop = new AbortController();
  const hooks: string[] = [];
  let act: HookAct = () => {};
  let dynamicProps: PropDescriptor[] = [];
  let forget = async (_sourceId: string) => {};
  const nextResolve = createOnce();
  let writesLeft = Number.POSITIVE_INFINITY;
  const nextWrite = createOnce();
  const dying = dyingStore(
    store,
    () => writesLeft,
    async () => {
      await nextWrite.run();
      writesLeft -= 1;
    },
  );
  let onSleep = () => {};
  let passedMs = 0;
  const clock: Clock = {
    now: () => systemClock.now() + passedMs,
    async sleep(ms, signal) {
      // A pause within an operation takes no time.
      if (!signal) passedMs += ms;
      else {
        onSleep();
        await systemClock.sleep(ms, signal);
      }
    },
  };
  const deps = {
    ...ports,
    clock,
    config: {
      mode,
      publicUrl: 'http://127.0.0.1:3000',
      endpointDomain: null,
      minIntervalSeconds: 15,
    } as Config,
  };

  async function saveComponent(owner_id: string, code: string): Promise<string> {
    const definition: Definition = {
      name: 'Tested',
      key: null,
      version: '',
      type: 'source',
      description: null,
      props: [],
      hooks: ['deploy', 'activate', 'deactivate'],
      dedupe: null,
      has_run: true,
      additional_props: false,
      ...(code.startsWith('{') ? (JSON.parse(code) as Partial<Definition>) : { props: [HTTP] }),
    };
    const content_hash = createHash('sha256').update(code).digest('hex');
    const rows = store.collection(components);
    const before = await rows.find({ owner_id, content_hash });
    if (before) return before.id;
    const id = newId('sc');
    const texts = { code, modules: '', code_hash: content_hash, content_hash, bundle_id: content_hash };
    const row = { id, owner_id, ...texts, definition, source_url: null, created_at: 0, updated_at: 0 };
    await rows.insertMany([row]);
    return (await rows.find({ owner_id, content_hash }))!.id;
  }

  call.serve(
    CALLS.resolve,
    async (message: ResolveCall['message']): Promise<ResolveCall['answer']> => {
      await nextResolve.run();
      return {
        component_id:
          (message.component_id as string | undefined) ??
          (await saveComponent(message.owner_id, String(message.component_code))),
      };
    },
    stop.signal,
  );
  call.serve(
    CALLS.hook,
    async ({ source_id, deployment_id, hook }: HookCall['message']): Promise<HookCall['answer']> => {
      if (writesLeft <= 0) throw new Error('nobody hears the answer');
      hooks.push(`${hook} ${deployment_id}`);
      try {
        await act(hook, deployment_id, source_id);
        return { ok: true };
      } catch (error) {
        if (error instanceof Unavailable) throw error;
        return { ok: false, name: 'Error', message: (error as Error).message };
      }
    },
    stop.signal,
  );
  call.serve(
    CALLS.configure,
    async ({ props }: ConfigureCall['message']): Promise<ConfigureCall['answer']> => ({
      props: [...props, ...dynamicProps],
    }),
    stop.signal,
  );
  call.serve(
    CALLS.forget,
    async ({ source_id }: ForgetCall['message']) => {
      await forget(source_id);
      return { ok: true };
    },
    stop.signal,
  );

  const createService = (over: Store) => createSourcesService({ ...deps, store: over });
  let service = createService(dying);

  return {
    store,
    queue,
    /** `<hook> <deployment id>`, in the order of the calls. */
    hooks,
    /** Sets the behaviour of hooks; a throw is a hook that throws, Unavailable a runner that fails. */
    onHook(next: HookAct) {
      act = next;
    },
    /** Sets the props that additionalProps adds, of every component that has it. */
    addProps(added: PropDescriptor[]) {
      dynamicProps = added;
    },
    /** Sets what happens while the runner is told to forget a source; a throw is a runner that does not answer. */
    onForget(next: (sourceId: string) => Promise<void>) {
      forget = next;
    },
    /** The next call of a hook lasts until `end` is called; the others do nothing. */
    holdHook(held: HookName) {
      const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      act = (hook) => {
        if (hook !== held) return;
        act = () => {};
        begun.resolve();
        return ended.promise;
      };
      return { begun: begun.promise, end: ended.resolve };
    },
    invoke: <T = Record<string, unknown>>(
      operationId: string,
      params: Record<string, string>,
      input: Record<string, unknown>,
      principal: Principal = ALICE,
    ) => invoke<T>(service, operationId, params, input, principal),
    /** Does something while the next component is resolved: when an update has read its row, and written nothing yet. */
    onNextResolve: nextResolve.set,
    /** Calls another process, which does not wait for the operations of the first one. */
    invokeElsewhere: <T = Record<string, unknown>>(
      operationId: string,
      params: Record<string, string>,
      input: Record<string, unknown>,
      principal: Principal = ALICE,
    ) => invoke<T>(createService(store), operationId, params, input, principal),
    /** The process dies at its n-th write from now on. */
    dieAfter(writes: number) {
      writesLeft = writes;
    },
    /** Does something before the next write, which fails if it throws. */
    onNextWrite: nextWrite.set,
    get dead() {
      return writesLeft <= 0;
    },
    /** A new process on the same data, which has looked for what was interrupted. */
    async restart() {
      writesLeft = Number.POSITIVE_INFINITY;
      service = createService(store);
      await this.recover();
    },
    /** Moves the clock of the service forward. */
    pass(ms: number) {
      passedMs += ms;
    },
    /** The recoveries of another process, once. */
    recoverElsewhere() {
      return this.recover(createService(store));
    },
    /** The recoveries, once. */
    async recover(of = service) {
      for (const worker of of.workers!.filter(({ name }) => name.startsWith('sources.recover-'))) {
        const once = new AbortController();
        const looked = new Promise<void>((done) => {
          onSleep = done;
        });
        const over = worker.run(once.signal);
        await Promise.race([looked, over]);
        once.abort();
        await over;
      }
    },
    /** Everything stored of a source. */
    async rowsOf(sourceId: string) {
      const where = { source_id: sourceId };
      return {
        source: await store.collection(sources).get(sourceId),
        deployments: await store.collection(deployments).list({ where }),
        endpoints: await store.collection(endpoints).list({ where, order: 'asc' }),
        timers: await store.collection(timers).list({ where }),
      };
    },
    async close() {
      stop.abort();
      await ports.close();
    },
  };
}
export type Testbed = Awaited<ReturnType<typeof createTestbed>>;

/** Code with these props and hooks. */
export const code = (definition: Partial<Definition> = {}): string => JSON.stringify(definition);
export const HTTP = { name: 'http', type: '$.interface.http' };
export const TIMER = { name: 'timer', type: '$.interface.timer' };

import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals';
import { createEmbeddedCall } from '@wellspring/call/embedded';
import type { Call } from '@wellspring/call/port';
import { CALLS, type HookCall, type PrepareCall } from '@wellspring/contract/calls';
import type { HookName } from '@wellspring/contract/definition';
import type { EmittedMessage, RecordJob, RunJob, Trigger } from '@wellspring/contract/messages';
import { systemClock } from '@wellspring/core/clock';
import { newId } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import { type Metrics, noMetrics } from '@wellspring/core/metrics';
import { createSeal } from '@wellspring/core/seal';
import { createEmbeddedPubSub } from '@wellspring/pubsub/embedded';
import { createEmbeddedQueue } from '@wellspring/queue/embedded';
import type { Queue, QueueName } from '@wellspring/queue/port';
import type { Config } from '@wellspring/runtime/config';
import { createSandbox, type Sandbox } from '@wellspring/sandbox/sandbox';
import { type Database, openDatabase } from '@wellspring/sqlite/database';
import { bundles } from '@wellspring/store/collections/components';
import { events, logs } from '@wellspring/store/collections/events';
import { deployments, endpoints, type SourceRow, sources } from '@wellspring/store/collections/sources';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import type { Store } from '@wellspring/store/port';
import { eventually } from '@wellspring/testing/eventually';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import type { LogRecord } from './records.ts';
import type { PermitCounts } from './run-permits.ts';
import { createRunnerService } from './service.ts';

/** The runner on embedded adapters and real sandbox processes. */

export const OWNER = 'u_0000000001';

/** Called before the real operation; a throw makes it fail. `refuse` makes a commit hit a version conflict. */
export interface Faults {
  commit: () => 'refuse' | undefined;
  publish: (queue: QueueName) => void;
  execute: () => void;
}

export interface Platform {
  store: Store;
  /** Database of the store and the queue. */
  db: Database;
  queue: Queue;
  call: Call;
  faults: Faults;
  /** Offset of the runner's clock, ms. */
  ahead: number;
  start(): void;
  /** Stops the service and reopens the database file, like a restarted process. */
  restart(): Promise<void>;
  prepare(code: string): Promise<PrepareCall['answer']>;
  /** A source with this code, live. */
  deploy(code: string, fields?: Partial<SourceRow>, props?: Record<string, string>): Promise<string>;
  /** Deploys other code to a source. */
  replaceCode(sourceId: string, code: string): Promise<void>;
  hook(sourceId: string, hook: HookName): Promise<HookCall['answer']>;
  /** Publishes one run per event, in one write; returns the run ids. */
  runAll(sourceId: string, list: readonly unknown[], more?: Partial<RunJob>): Promise<string[]>;
  trigger(sourceId: string, trigger: Trigger, more?: Partial<RunJob>): Promise<string>;
  record(job: Omit<RecordJob, 'v' | 'type'>): Promise<void>;
  /** Resolves when no job waits or runs. */
  quiet(): Promise<void>;
  /** Parsed payloads, oldest first. */
  events(sourceId: string, stream?: 'events' | '$errors'): Promise<unknown[]>;
  logs(sourceId: string): Promise<LogRecord[]>;
  /** The value of a gauge of the service. */
  gauge(name: string): Promise<number>;
  /** Sandbox processes with a call in progress. */
  busy(): number;
  /** Kills the processes of a source. */
  killCode(sourceId: string): void;
  /** Messages of the queue `emitted` so far, in order. */
  published: EmittedMessage[];
}

/** A platform for each test of the file; the sandbox is shared. */
export function usePlatform({ permits }: { permits?: PermitCounts } = {}): Platform {
  const t = {} as Platform;
  let home: TempDir;
  let sandbox: Sandbox;
  let directory: TempDir;
  let database: Database;
  let running: { stop(): Promise<void> } | undefined;
  const gauges = new Map<string, () => number | Promise<number>>();
  const metrics: Metrics = { ...noMetrics, gauge: (name, _help, read) => void gauges.set(name, read) };
  t.gauge = async (name) => gauges.get(name)!();
  t.killCode = (sourceId) => sandbox.executor.retire(`${sourceId}/`, { atOnce: true });
  t.busy = () => sandbox.executor.stats().busy;
  const seal = createSeal(['a root key of the tests']);

  beforeAll(async () => {
    home = await tempDir();
    sandbox = await createSandbox({
      dataDir: home.path,
      isolation: 'auto',
      codeAllowNetworks: [],
      platform: { names: [], listenerPorts: [], endpoints: [] },
      packageEnvironment: {},
      clock: systemClock,
      log: silentLog,
      metrics: noMetrics,
      pool: 2,
    });
  });
  afterAll(async () => {
    await sandbox.executor.close();
    await home.remove();
  });

  let realQueue: Queue;
  function openPorts(): void {
    database = openDatabase(join(directory.path, 'wellspring.db'));
    t.db = database;
    const store = createEmbeddedStore(database);
    realQueue = createEmbeddedQueue(database, { clock: systemClock, log: silentLog });
    t.store = {
      ...store,
      commitRun: async (commit) => t.faults.commit() !== 'refuse' && store.commitRun(commit),
    };
    t.queue = {
      ...realQueue,
      publish: async (queue, job) => {
        t.faults.publish(queue);
        await realQueue.publish(queue, job);
      },
    };
    t.call = createEmbeddedCall({ log: silentLog });
  }

  async function closePorts(): Promise<void> {
    await running?.stop();
    running = undefined;
    await realQueue.close();
    await t.store.close();
    await database.close();
  }

  beforeEach(async () => {
    directory = await tempDir();
    t.faults = { commit: () => undefined, publish: () => {}, execute: () => {} };
    t.published = [];
    t.ahead = 0;
    openPorts();
    t.start();
  });
  afterEach(async () => {
    await closePorts();
    await directory.remove();
  });

  t.start = () => {
    const stop = new AbortController();
    const service = createRunnerService({
      store: t.store,
      queue: t.queue,
      call: t.call,
      pubsub: createEmbeddedPubSub({ log: silentLog }),
      clock: { ...systemClock, now: () => systemClock.now() + t.ahead },
      log: silentLog,
      metrics,
      seal,
      config: { mode: 'embedded', publicUrl: 'http://127.0.0.1:3000', endpointDomain: null } as Config,
      executor: {
        ...sandbox.executor,
        async execute(task, host, options) {
          t.faults.execute();
          return sandbox.executor.execute(task, host, options);
        },
        close: async () => {},
      },
      packager: sandbox.packager,
      ...(permits && { permits }),
    });
    const workers = service.workers!.map((worker) => worker.run(stop.signal));
    workers.push(
      realQueue.consume(
        'emitted',
        async ([job]) => void t.published.push(JSON.parse(job.payload) as EmittedMessage),
        { concurrency: 1, signal: stop.signal },
      ),
    );
    running = {
      async stop() {
        stop.abort();
        await Promise.all(workers);
        await service.dispose!();
      },
    };
  };
  t.restart = async () => {
    await closePorts();
    openPorts();
    t.start();
  };
  t.prepare = (code) =>
    t.call.request(CALLS.prepare, { code, owner_id: OWNER }, { deadlineMs: 30_000 }) as never;

  async function deployment(sourceId: string, code: string, props: Record<string, string> = {}) {
    const { bundle_id, bundle, definition } = await t.prepare(code);
    await t.store.collection(bundles).insertMany([{ id: bundle_id, content: JSON.stringify(bundle) }]);
    const stored = { ...props };
    for (const { name, secret } of definition.props) {
      if (secret && stored[name] !== undefined) stored[name] = seal.seal(stored[name], sourceId);
    }
    const id = newId('d');
    await t.store.collection(deployments).insert({
      id,
      source_id: sourceId,
      component_id: 'sc_0000000000',
      bundle_id,
      definition,
      configured_props: stored,
      created_at: 0,
    });
    return { id, definition };
  }

  t.deploy = async (code, fields = {}, props = {}) => {
    const id = newId('dc');
    const deployed = await deployment(id, code, props);
    for (const { name, type, customResponse = false } of deployed.definition.props) {
      if (type !== '$.interface.http') continue;
      await t.store.collection(endpoints).insert({
        id: `e${id.toLowerCase()}`,
        source_id: id,
        owner_id: OWNER,
        prop: name,
        active: true,
        custom_response: customResponse,
        concurrency: 1,
      });
    }
    await t.store.collection(sources).insert({
      id,
      owner_id: OWNER,
      user_id: OWNER,
      component_id: 'sc_0000000000',
      deployment_id: deployed.id,
      name: id,
      name_slug: id,
      active: true,
      concurrency: 1,
      status: 'live',
      transition: null,
      created_at: 0,
      updated_at: 0,
      ...fields,
    });
    return id;
  };
  t.replaceCode = async (sourceId, code) => {
    const { id } = await deployment(sourceId, code);
    await t.store.collection(sources).patch(sourceId, { deployment_id: id });
  };
  t.hook = async (source_id, hook) => {
    const { deployment_id } = (await t.store.collection(sources).get(source_id))!;
    const message: HookCall['message'] = { source_id, deployment_id, hook };
    return t.call.request(CALLS.hook, message, { key: source_id, deadlineMs: 30_000 }) as never;
  };

  const runJob = (sourceId: string, trigger: Trigger, more: Partial<RunJob>): RunJob => ({
    v: 1,
    type: 'run',
    run_id: newId('run'),
    source_id: sourceId,
    trigger,
    hop: 0,
    trace_id: 'trace',
    accepted_at: systemClock.now(),
    ...more,
  });
  t.runAll = async (sourceId, list, more = {}) => {
    const jobs = list.map((value) =>
      runJob(sourceId, { kind: 'manual', payload: JSON.stringify(value) }, more),
    );
    await t.queue.publishMany(
      'runs',
      jobs.map((job) => ({ key: sourceId, payload: JSON.stringify(job) })),
    );
    return jobs.map(({ run_id }) => run_id);
  };
  t.trigger = async (sourceId, trigger, more = {}) => {
    const job = runJob(sourceId, trigger, more);
    await t.queue.publish('runs', { key: sourceId, payload: JSON.stringify(job) });
    return job.run_id;
  };
  t.record = (job) =>
    t.queue.publish('runs', {
      key: job.source_id,
      payload: JSON.stringify({ v: 1, type: 'record', ...job }),
    });
  t.quiet = async () => {
    await eventually(
      async () => (await t.queue.depth('runs')) === 0 && (await t.queue.depth('emitted')) === 0,
      { ms: 20_000 },
    );
  };
  t.events = async (sourceId, stream = 'events') => {
    const rows = await t.store
      .collection(events)
      .list({ where: { partition: `${sourceId}/${stream}` }, orderBy: 'sort_key', order: 'asc' });
    return rows.map(({ payload }) => JSON.parse(payload));
  };
  t.logs = async (sourceId) => {
    const rows = await t.store
      .collection(logs)
      .list({ where: { emitter_id: sourceId }, orderBy: 'sort_key', order: 'asc' });
    return rows.flatMap(({ records }) => JSON.parse(records) as LogRecord[]);
  };
  return t;
}

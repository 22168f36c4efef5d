import { afterAll, beforeAll, beforeEach } from '@jest/globals';
import { CALLS, type HookCall, type PrepareCall } from '@wellspring/contract/calls';
import type { HookName } from '@wellspring/contract/definition';
import type { EmittedMessage, RecordJob, RunJob, Trigger } from '@wellspring/contract/messages';
import { systemClock } from '@wellspring/core/clock';
import { newId, newRunId } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import type { Memory } from '@wellspring/core/memory';
import { type Metrics, noMetrics } from '@wellspring/core/metrics';
import type { Config } from '@wellspring/runtime/config';
import { sealValues } from '@wellspring/runtime/secret-values';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import { createSandbox, type Sandbox, type SandboxOptions } from '@wellspring/sandbox/sandbox';
import { events, logs, recordsOf } from '@wellspring/store/collections/events';
import { outbox } from '@wellspring/store/collections/outbox';
import { deployments, endpoints, type SourceRow, sources } from '@wellspring/store/collections/sources';
import { eventually } from '@wellspring/testing/eventually';
import { endpointRow, OWNER, sourceRow } from '@wellspring/testing/rows';
import { type Harness, seal, useHarness } from '@wellspring/testing/service-harness';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { type Faulty, noFaults, withFaults } from './faults.fixture.ts';
import type { LogRecord } from './records.ts';
import { insertBundle, subscribe } from './rows.fixture.ts';
import type { PermitCounts } from './run-permits.ts';
import type { createRunSlots } from './run-slots.ts';
import { createRunnerService } from './service.ts';

/** The runner on embedded adapters and real sandbox processes. */

export const ECHO = `export default { name: 'Echo', run(event) { this.$emit(event); } };`;

/** Emits each event with the number of its run. */
export const COUNTING = `export default { name: 'Counting', props: { db: '$.service.db' }, run(event) {
  const n = (this.db.get('n') ?? 0) + 1;
  this.db.set('n', n);
  this.$emit([event, n]);
} };`;

export interface Platform extends Harness, Faulty {
  /** Offset of the runner's clock, ms. */
  ahead: number;
  start(): void;
  /** Reopens the database file and starts the service. */
  restart(): Promise<void>;
  prepare(code: string): Promise<PrepareCall['answer']>;
  /** A source with this code, live, with a listener of its default channel and one of `$errors`. */
  deploy(code: string, fields?: Partial<SourceRow>, props?: Record<string, unknown>): Promise<string>;
  /** Deploys other code to a source. */
  replaceCode(sourceId: string, code: string): Promise<void>;
  hook(sourceId: string, hook: HookName): Promise<HookCall['answer']>;
  /** Publishes one run per event, in one write; returns the run ids. */
  runAll(sourceId: string, list: readonly unknown[], more?: Partial<RunJob>): Promise<string[]>;
  /** The same, until they have ended. */
  runToEnd(sourceId: string, list: readonly unknown[], more?: Partial<RunJob>): Promise<string[]>;
  trigger(sourceId: string, trigger: Trigger, more?: Partial<RunJob>): Promise<string>;
  triggerToEnd(sourceId: string, trigger: Trigger, more?: Partial<RunJob>): Promise<string>;
  record(job: Omit<RecordJob, 'v' | 'type'>): Promise<void>;
  /** Resolves when no job waits or runs. */
  quiet(): Promise<void>;
  outboxIsEmpty(): Promise<unknown>;
  /** Makes the next commit hit a version conflict. @returns the number of commits since */
  refuseCommit(): () => number;
  /** Parsed payloads, oldest first. */
  events(sourceId: string, stream?: 'events' | '$errors'): Promise<unknown[]>;
  logs(sourceId: string): Promise<LogRecord[]>;
  /** The lines that the code logged. */
  lines(sourceId: string): Promise<unknown[]>;
  /** The value of a gauge of the service. */
  gauge(name: string): Promise<number>;
  /** Sandbox processes with a call in progress. */
  busy(): number;
  /** Kills the processes of a source. */
  killCode(sourceId: string): void;
  /** Messages of the queue `emitted` so far, in order. */
  published: EmittedMessage[];
  /** Their parsed payloads of one channel; default: the unnamed one. */
  // biome-ignore lint/suspicious/noExplicitAny: any emitted value
  publishedPayloads(name?: string): any[];
}

type PlatformOptions = Partial<
  SandboxOptions & { permits: PermitCounts; openSlots: typeof createRunSlots; memory: Partial<Memory> }
>;

/** A platform for each test of the file; the sandbox is shared. */
export function usePlatform({ permits, openSlots, memory, ...tuning }: PlatformOptions = {}): Platform {
  const t = useHarness() as Platform;
  let home: TempDir;
  let sandbox: Sandbox;
  const gauges = new Map<string, () => number | Promise<number>>();
  const metrics: Metrics = { ...noMetrics, gauge: (name, _help, read) => void gauges.set(name, read) };
  t.gauge = async (name) => gauges.get(name)!();
  t.killCode = (sourceId) => sandbox.executor.retire(`${sourceId}/`, { atOnce: true });
  t.busy = () => sandbox.executor.stats().busy;

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
      ...tuning,
    });
  });
  afterAll(async () => {
    await sandbox.executor.close();
    await home.remove();
  });

  beforeEach(() => {
    Object.assign(t, noFaults());
    t.published = [];
    t.ahead = 0;
    t.start();
  });

  t.start = () => {
    Object.assign(t, withFaults(t));
    t.run(
      createRunnerService({
        ...t,
        clock: { ...systemClock, now: () => systemClock.now() + t.ahead },
        metrics,
        config: { mode: 'embedded', publicUrl: 'http://127.0.0.1:3000', endpointDomain: null } as Config,
        executor: {
          ...sandbox.executor,
          async execute(task, host, options) {
            t.faults.execute(options.timeoutMs);
            return sandbox.executor.execute(task, host, options);
          },
          close: async () => {},
        },
        packager: sandbox.packager,
        ...(permits && { permits }),
        ...(openSlots && { openSlots }),
        memory: { ...t.memory, ...memory },
      }),
    );
    const collect: BackgroundWorker = {
      name: 'collect',
      run: (signal) =>
        t.queue.consume(
          'emitted',
          async ([job]) => void t.published.push(JSON.parse(job.payload) as EmittedMessage),
          { signal },
        ),
    };
    t.run({ name: 'delivery', workers: [collect] });
  };
  t.restart = async () => {
    await t.reopen();
    t.start();
  };
  t.prepare = (code) =>
    t.call.request(CALLS.prepare, { code, owner_id: OWNER }, { deadlineMs: 30_000 }) as never;

  async function deployment(sourceId: string, code: string, props: Record<string, unknown> = {}) {
    const prepared = await t.prepare(code);
    const { bundle_id, definition } = prepared;
    await insertBundle(t, prepared);
    const id = newId('d');
    await t.store.collection(deployments).insert({
      id,
      source_id: sourceId,
      component_id: 'sc_0000000000',
      bundle_id,
      definition,
      configured_props: sealValues({ seal }, definition.props, props, sourceId),
      created_at: 0,
    });
    return { id, definition };
  }

  t.deploy = async (code, fields = {}, props = {}) => {
    const id = newId('dc');
    const deployed = await deployment(id, code, props);
    for (const { name, type, customResponse = false } of deployed.definition.props) {
      if (type !== '$.interface.http') continue;
      const row = { id: `e${id.toLowerCase()}`, source_id: id, prop: name, custom_response: customResponse };
      await t.store.collection(endpoints).insert(endpointRow(row));
    }
    await t.store.collection(sources).insert(sourceRow({ id, deployment_id: deployed.id, ...fields }));
    await subscribe(t, id, '', '$errors');
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
    run_id: newRunId(),
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
  t.runToEnd = (...run) => t.runAll(...run).finally(t.quiet);
  t.trigger = async (sourceId, trigger, more = {}) => {
    const job = runJob(sourceId, trigger, more);
    await t.queue.publish('runs', { key: sourceId, payload: JSON.stringify(job) });
    return job.run_id;
  };
  t.triggerToEnd = (...run) => t.trigger(...run).finally(t.quiet);
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
  t.outboxIsEmpty = () => eventually(async () => (await t.store.collection(outbox).count()) === 0);
  t.refuseCommit = () => {
    let commits = 0;
    t.faults.commit = () => (commits++ === 0 ? 'refuse' : undefined);
    return () => commits;
  };
  t.publishedPayloads = (name = '') =>
    t.published.flatMap(({ events }) =>
      events.filter((event) => event.name === name).map(({ payload }) => JSON.parse(payload)),
    );
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
    return rows.flatMap((row) => recordsOf<LogRecord>(row));
  };
  t.lines = async (sourceId) => (await t.logs(sourceId)).filter(({ k }) => k === 'log').map(({ msg }) => msg);
  return t;
}

import type {
  Emit,
  Instance,
  LogLine,
  Respond,
  ThrownError,
} from '@wellspring/component/program/program-types';
import type { ComponentCode } from '@wellspring/contract/definition';
import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { noMetrics } from '@wellspring/core/metrics';
import { tempDir } from '@wellspring/testing/temp-dir';
import type { Host, Packager, Result, Room, Task } from './port.ts';
import { createSandbox, type Sandbox, type SandboxOptions } from './sandbox.ts';
import { findBubblewrap } from './tiers/bubblewrap.ts';
import { findCompiler } from './tiers/compile-launcher.ts';
import type { TierName } from './tiers/tier.ts';

/** Tiers that this machine supports. The launcher needs root and a C compiler. */
export const TIERS: readonly TierName[] = [
  ...(findBubblewrap() === undefined ? [] : (['bubblewrap'] as const)),
  ...(process.getuid?.() === 0 && findCompiler() !== undefined ? (['launcher'] as const) : []),
  'none',
];

/** Tiers in which the kernel isolates the code. */
export const KERNEL_TIERS = TIERS.filter((tier) => tier !== 'none');

/** Environment for the registry, from the developer's environment. */
const environment = Object.fromEntries(
  Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined),
);

/** A host that records its calls. */
export interface Recorder extends Host {
  emits: Emit[];
  faults: ThrownError[];
  logs: LogLine[];
  replies: Respond[];
  db: Record<string, string>;
}

export function createRecorder(): Recorder {
  let revision = 0;
  const recorder: Recorder = {
    emits: [],
    faults: [],
    logs: [],
    replies: [],
    db: {},
    emit: (emit) => void recorder.emits.push(emit),
    fault: (error) => void recorder.faults.push(error),
    log: (line) => void recorder.logs.push(line),
    respond: (reply) => void recorder.replies.push(reply),
    dbSet(key, json) {
      if (json === undefined) delete recorder.db[key];
      else recorder.db[key] = json;
      revision += 1;
      return revision;
    },
  };
  return recorder;
}

export type Outcome = Result & Recorder;

export interface RunOptions {
  /** The event; default {}. */
  event?: unknown;
  /** Default: a new process, used once. */
  process?: string;
  timeoutMs?: number;
  signal?: AbortSignal;
  room?: Room;
  instance?: Partial<Instance>;
  owner?: Task['owner'];
  call?: Task['call'];
  /** The modules of the code, and its URL. */
  from?: Omit<ComponentCode, 'code'>;
}

export interface TestSandbox extends Sandbox, AsyncDisposable {
  dataDir: string;
  /** Runs a module. */
  runModule(code: string, options?: RunOptions): Promise<Outcome>;
  /** Runs these statements as the body of `run(event)`, and emits the returned value. */
  run(body: string, options?: RunOptions): Promise<Outcome>;
}

export async function openSandbox(
  isolation: SandboxOptions['isolation'],
  options: Partial<SandboxOptions> = {},
): Promise<TestSandbox> {
  const directory = await tempDir();
  const sandbox = await createSandbox({
    dataDir: directory.path,
    isolation,
    codeAllowNetworks: [],
    platform: { names: [], listenerPorts: [], endpoints: [] },
    packageEnvironment: environment,
    clock: systemClock,
    log: silentLog,
    metrics: noMetrics,
    pool: 1,
    ...options,
  });

  /** Bundles by code. Compiled code is called synchronously, so that calls keep their order. */
  const compiled = new Map<string, Awaited<ReturnType<Packager['bundle']>>>();
  /** Current compilations, shared so that calls keep their order. */
  const compiling = new Map<string, ReturnType<Packager['bundle']>>();

  function bundleOf(code: string, from: RunOptions['from']): ReturnType<Packager['bundle']> {
    const bundling = compiling.get(code) ?? sandbox.packager.bundle({ code, ...from }, { ownerId: 'u_test' });
    compiling.set(code, bundling);
    return bundling;
  }

  async function runModule(
    code: string,
    { event = {}, process, timeoutMs = 20_000, signal, room, instance, call, owner, from }: RunOptions = {},
  ): Promise<Outcome> {
    const { id, bundle } = compiled.get(code) ?? (await bundleOf(code, from));
    compiled.set(code, { id, bundle });
    const recorder = createRecorder();
    const result = await sandbox.executor.execute(
      {
        bundleId: id,
        readBundle: async () => bundle,
        ...(process === undefined ? {} : { processKey: process }),
        ...(owner === undefined ? {} : { owner }),
        instance: {
          source_id: 'dc_test',
          props: [],
          values: {},
          endpoints: {},
          db: {},
          dbRevision: 0,
          ...instance,
        },
        call: call ?? {
          kind: 'run',
          trigger: { kind: 'value', json: JSON.stringify(event) },
          emitTrigger: false,
        },
      },
      recorder,
      { timeoutMs, ...(signal && { signal }), room },
    );
    return { ...recorder, ...result };
  }

  return {
    ...sandbox,
    dataDir: directory.path,
    runModule,
    run: (body, runOptions) =>
      runModule(
        `import fs from 'node:fs'; import net from 'node:net'; import os from 'node:os'; import http from 'node:http';
         export default { name: 'test', async run(event) {
           const value = await (async () => { ${body} })();
           if (value !== undefined) this.$emit(value);
         } };`,
        runOptions,
      ),
    async [Symbol.asyncDispose]() {
      await sandbox.executor.close();
      await directory.remove();
    },
  };
}

/** The values emitted, parsed. */
export const values = ({ emits }: Pick<Recorder, 'emits'>): unknown[] =>
  emits.map(({ payload }) => JSON.parse(payload));

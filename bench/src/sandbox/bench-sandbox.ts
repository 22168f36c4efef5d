import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { noMetrics } from '@wellspring/core/metrics';
import type { Host, Result, Task } from '@wellspring/sandbox/port';
import { createSandbox, type Sandbox, type SandboxOptions } from '@wellspring/sandbox/sandbox';
import { tempDir } from '@wellspring/testing/temp-dir';
import { descendantsIdle } from '../processes.ts';

/** The sandbox of a runner, without the rest of the platform. */
export interface BenchSandbox extends AsyncDisposable {
  executor: Sandbox['executor'];
  /** Compiles code, to be called afterwards, and waits until nothing else runs. */
  component(code: string): Promise<Component>;
  /** Waits for this many processes in the pool. */
  poolReady(processes: number): Promise<void>;
}

export interface Component {
  /** One run in the process of this key. @throws Error when the run fails */
  call(process: string, event?: unknown, timeoutMs?: number): Promise<Result & { emits: string[] }>;
}

const environment = Object.fromEntries(
  Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined),
);

export async function openBenchSandbox(
  isolation: SandboxOptions['isolation'],
  options: Partial<SandboxOptions> = {},
): Promise<BenchSandbox> {
  const directory = await tempDir();
  const { executor, packager } = await createSandbox({
    dataDir: directory.path,
    isolation,
    codeAllowNetworks: ['127.0.0.0/8'],
    platform: { names: [], listenerPorts: [], endpoints: [] },
    packageEnvironment: environment,
    clock: systemClock,
    log: silentLog,
    metrics: noMetrics,
    ...options,
  });
  return {
    executor,
    async component(code) {
      const { id, bundle } = await packager.bundle({ code }, { ownerId: 'u_bench' });
      // V8 optimizes the compiler for seconds after its first use.
      await descendantsIdle();
      let revision = 0;
      return {
        async call(process, event = {}, timeoutMs = 60_000) {
          const emits: string[] = [];
          const host: Host = {
            emit: ({ payload }) => void emits.push(payload),
            fault(error) {
              throw new Error(error.message);
            },
            log() {},
            respond() {},
            dbSet: () => ++revision,
          };
          const task: Task = {
            processKey: process,
            bundleId: id,
            readBundle: async () => bundle,
            instance: {
              source_id: 'dc_bench',
              props: [{ name: 'db', type: '$.service.db' }],
              values: {},
              endpoints: {},
              db: {},
              dbRevision: revision,
            },
            call: {
              kind: 'run',
              trigger: { kind: 'value', json: JSON.stringify(event) },
              emitTrigger: false,
            },
          };
          const result = await executor.execute(task, host, { timeoutMs });
          if (!result.ok && result.reason !== 'timeout') throw new Error(result.error.message);
          return { ...result, emits };
        },
      };
    },
    async poolReady(processes) {
      const deadline = performance.now() + 60_000;
      while (executor.stats().pool < processes) {
        if (performance.now() > deadline) throw new Error('The pool did not fill.');
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    },
    async [Symbol.asyncDispose]() {
      await executor.close();
      await directory.remove();
    },
  };
}

import { Worker } from 'node:worker_threads';
import { Problem } from '@wellspring/core/problem';
import type { PackagerAnswer, PackagerMethods, PackagerThreadData } from './packager-thread.ts';

/** The methods of the packager's thread, called from the platform's. */
export type PackagerClient = PackagerMethods;

const HEAP_MB = 1024;
const THREAD = new URL('./packager-thread.ts', import.meta.url);

/**
 * Starts the thread with the first call, and again after it has failed: an answer of the registry that does not fit
 * into its memory ends it, and fails what was under way.
 */
export function createPackagerClient(data: PackagerThreadData): PackagerClient {
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  let worker: Worker | undefined;
  let next = 0;
  let closed = false;

  function start(): Worker {
    const started = new Worker(THREAD, {
      workerData: data,
      // Nothing of the platform's environment: what the registry needs is part of the data.
      env: {},
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
    });
    let reason = new Error('the thread of the packager has ended');
    started.on('error', (error: Error) => {
      reason = new Error(`the thread of the packager failed: ${error.message}`);
    });
    started.on('message', (answer: PackagerAnswer) => {
      const call = waiting.get(answer.id);
      waiting.delete(answer.id);
      if (waiting.size === 0) started.unref();
      if ('value' in answer) call?.resolve(answer.value);
      else if ('problem' in answer) call?.reject(new Problem(answer.problem));
      else call?.reject(new Error(answer.fault));
    });
    started.once('exit', () => {
      if (worker === started) worker = undefined;
      for (const [id, call] of waiting) {
        waiting.delete(id);
        call.reject(reason);
      }
    });
    return started;
  }

  function call(method: keyof PackagerMethods, argument?: unknown): Promise<never> {
    if (closed) return Promise.reject(new Error('the packager is closed'));
    worker ??= start();
    worker.ref();
    const id = next++;
    return new Promise<unknown>((resolve, reject) => {
      waiting.set(id, { resolve, reject });
      worker!.postMessage({ id, method, argument });
    }) as Promise<never>;
  }

  return {
    compile: (code) => call('compile', code),
    settle: (packages) => call('settle', packages),
    find: (bundle) => call('find', bundle),
    provide: (bundle) => call('provide', bundle),
    async close() {
      const running = worker;
      if (running) await call('close').catch(() => {});
      closed = true;
      await running?.terminate();
    },
  };
}

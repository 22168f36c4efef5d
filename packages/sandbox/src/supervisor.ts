import { errorOf } from './child.ts';
import { sandboxClosed } from './pool.ts';
import type { CallOptions, Executor, Host, Result, Task } from './port.ts';
import { canExecute, isOutdated, type SandboxProcess } from './sandbox-process.ts';
import { createSandboxProcesses, type SandboxProcessesOptions } from './sandbox-processes.ts';

interface Call {
  task: Task;
  host: Host;
  options: CallOptions;
  resolve(result: Result): void;
  reject(error: unknown): void;
}

/** The calls of one process key, in order. */
interface CallQueue {
  calls: Call[];
  /** Number of calls that were sent to the process: the first ones of the queue. */
  sent: number;
  sending: boolean;
}

const aborted = (message: string): Result => ({
  ok: false,
  reason: 'aborted',
  error: errorOf('aborted', message),
  durationMs: 0,
  cpuMs: 0,
});

/** The call was aborted by closing, or never began: it is not the code's fault, and has to be repeated. */
const isInterrupted = (result: Result | undefined) =>
  result === undefined || (!result.ok && result.reason === 'aborted');

/** Sends calls to processes: in order by process key, each exactly once, even if processes crash. */
export function createSupervisor(options: SandboxProcessesOptions): Executor {
  const processes = createSandboxProcesses(options);
  const queues = new Map<string, CallQueue>();
  let closed = false;

  /** A process that can execute the call. A promise of undefined: the state has changed, try again. */
  function processFor(key: string, { task }: Call): SandboxProcess | Promise<SandboxProcess | undefined> {
    const proc = processes.get(key);
    if (!proc) return processes.start(task);
    const isSuitable = canExecute(proc, task);
    // Sending `$service.db` during other calls would undo their changes.
    if (isSuitable && (proc.busy === 0 || !isOutdated(proc, task))) return proc;
    if (isSuitable || (proc.busy > 0 && proc.child.usable)) {
      return new Promise((resolve) => proc.whenIdle.push(() => resolve(undefined)));
    }
    return processes.start(task);
  }

  /** Sends calls before earlier ones have ended, so that the process never waits for its next call. */
  async function send(key: string, queue: CallQueue): Promise<void> {
    if (queue.sending) return;
    queue.sending = true;
    for (let call = queue.calls[queue.sent]; call; call = queue.calls[queue.sent]) {
      try {
        const found = processFor(key, call);
        const proc = found instanceof Promise ? await found : found;
        // Earlier calls were returned to the queue when their process ended: they are sent first.
        if (proc && queue.calls.length === 0) proc.child.kill('aborted', 'The source was deleted.');
        if (!proc || queue.calls[queue.sent] !== call) continue;
        queue.sent += 1;
        const sent = call;
        processes.call(proc, call.task, call.host, call.options, (result) =>
          settle(key, queue, sent, result),
        );
      } catch (error) {
        remove(queue, call);
        call.reject(error);
      }
    }
    queue.sending = false;
    if (queue.calls.length === 0 && queues.get(key) === queue) queues.delete(key);
  }

  function remove(queue: CallQueue, call: Call): void {
    const at = queue.calls.indexOf(call);
    if (at < 0) return;
    queue.calls.splice(at, 1);
    if (at < queue.sent) queue.sent -= 1;
  }

  function settle(key: string, queue: CallQueue, call: Call, result: Result | undefined): void {
    if (closed && isInterrupted(result)) {
      remove(queue, call);
      call.reject(sandboxClosed());
      return;
    }
    if (result) {
      remove(queue, call);
      call.resolve(result);
      if (queue.calls.length === 0 && !queue.sending && queues.get(key) === queue) queues.delete(key);
      return;
    }
    // The process ended before this call began: another process executes it and those behind it.
    const at = queue.calls.indexOf(call);
    if (at < 0) return;
    queue.sent = Math.min(queue.sent, at);
    void send(key, queue);
  }

  async function executeInNewProcess({
    task,
    host,
    options,
  }: Pick<Call, 'task' | 'host' | 'options'>): Promise<Result> {
    for (;;) {
      const proc = await processes.start(task);
      const result = await new Promise<Result | undefined>((resolve) =>
        processes.call(proc, task, host, options, resolve),
      );
      if (closed && isInterrupted(result)) throw sandboxClosed();
      if (result) return result;
    }
  }

  return {
    tier: options.tier.name,
    execute(task, host, limits) {
      if (closed) return Promise.reject(sandboxClosed());
      const { processKey: key } = task;
      if (key === undefined) return executeInNewProcess({ task, host, options: limits });
      return new Promise((resolve, reject) => {
        const queue = queues.get(key) ?? { calls: [], sent: 0, sending: false };
        queues.set(key, queue);
        queue.calls.push({ task, host, options: limits, resolve, reject });
        void send(key, queue);
      });
    },
    retire(prefix, { atOnce = false } = {}) {
      const ended = atOnce ? [...queues].filter(([key]) => key.startsWith(prefix)) : [];
      const end = (calls: Call[]) => {
        for (const call of calls) call.resolve(aborted('The source was deleted.'));
      };
      for (const [, queue] of ended) {
        end(queue.calls.splice(1));
        queue.sent = Math.min(queue.sent, 1);
      }
      // The result of a call in progress contains its processor time.
      processes.retire(prefix, atOnce);
      for (const [, queue] of ended) {
        end(queue.calls.splice(0));
        queue.sent = 0;
      }
    },
    allowNetworks: options.egress.allowNetworks,
    onIdleUsage: processes.onIdleUsage,
    stats: processes.stats,
    async close() {
      closed = true;
      await processes.close();
    },
  };
}

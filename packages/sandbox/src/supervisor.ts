import type { Executor, Host, Result, Task } from './port.ts';
import {
  createSandboxProcesses,
  isOutdated,
  type SandboxProcess,
  type SandboxProcessesOptions,
  suits,
} from './sandbox-processes.ts';

interface Call {
  task: Task;
  host: Host;
  options: { timeoutMs: number; signal?: AbortSignal };
  resolve(result: Result): void;
  reject(error: unknown): void;
}

/** The calls of one process key in their order. */
interface Line {
  calls: Call[];
  /** So many of them are with the process already. */
  sent: number;
  sending: boolean;
}

const aborted = (message: string): Result => ({
  ok: false,
  reason: 'aborted',
  error: { name: 'AbortError', message, stack: '' },
  durationMs: 0,
  cpuMs: 0,
});

/** Closing broke it off, or it was never begun: no fault of the code, which has to be run again. */
const isBrokenOff = (result: Result | undefined) =>
  result === undefined || (!result.ok && result.reason === 'aborted');
const CLOSED = 'the sandbox is closed';

/** Brings calls to processes: in order by process key, each exactly once, whatever becomes of a process. */
export function createSupervisor(options: SandboxProcessesOptions): Executor {
  const processes = createSandboxProcesses(options);
  const lines = new Map<string, Line>();
  let closed = false;

  /** A process that can take the first call that was not sent; undefined: look again, something has changed. */
  function processFor(key: string, { task }: Call): SandboxProcess | Promise<SandboxProcess | undefined> {
    const proc = processes.get(key);
    if (!proc) return processes.start(task);
    const fits = suits(proc, task);
    // The map that is to be sent must not undo what the calls under way have set meanwhile.
    if (fits && (proc.busy === 0 || !isOutdated(proc, task))) return proc;
    if (fits || (proc.busy > 0 && proc.child.usable)) {
      return new Promise((resolve) => proc.whenIdle.push(() => resolve(undefined)));
    }
    return processes.start(task);
  }

  /** Calls are sent ahead: the process has its next one when it ends one. */
  async function send(key: string, line: Line): Promise<void> {
    if (line.sending) return;
    line.sending = true;
    for (let call = line.calls[line.sent]; call; call = line.calls[line.sent]) {
      try {
        const found = processFor(key, call);
        const proc = found instanceof Promise ? await found : found;
        // The process of those before it ended meanwhile: they go first.
        if (!proc || line.calls[line.sent] !== call) continue;
        line.sent += 1;
        const sent = call;
        processes.call(proc, call.task, call.host, call.options, (result) => settle(key, line, sent, result));
      } catch (error) {
        remove(line, call);
        call.reject(error);
      }
    }
    line.sending = false;
    if (line.calls.length === 0 && lines.get(key) === line) lines.delete(key);
  }

  function remove(line: Line, call: Call): void {
    const at = line.calls.indexOf(call);
    if (at < 0) return;
    line.calls.splice(at, 1);
    if (at < line.sent) line.sent -= 1;
  }

  function settle(key: string, line: Line, call: Call, result: Result | undefined): void {
    if (closed && isBrokenOff(result)) {
      remove(line, call);
      call.reject(new Error(CLOSED));
      return;
    }
    if (result) {
      remove(line, call);
      call.resolve(result);
      if (line.calls.length === 0 && !line.sending && lines.get(key) === line) lines.delete(key);
      return;
    }
    // The process ended before it began with this one: another takes it, and those behind it.
    const at = line.calls.indexOf(call);
    if (at < 0) return;
    line.sent = Math.min(line.sent, at);
    void send(key, line);
  }

  async function once({ task, host, options }: Pick<Call, 'task' | 'host' | 'options'>): Promise<Result> {
    for (;;) {
      const proc = await processes.start(task);
      const result = await new Promise<Result | undefined>((resolve) =>
        processes.call(proc, task, host, options, resolve),
      );
      if (closed && isBrokenOff(result)) throw new Error(CLOSED);
      if (result) return result;
    }
  }

  return {
    tier: options.tier.name,
    execute(task, host, limits) {
      if (closed) return Promise.reject(new Error(CLOSED));
      const { process: key } = task;
      if (key === undefined) return once({ task, host, options: limits });
      return new Promise((resolve, reject) => {
        const line = lines.get(key) ?? { calls: [], sent: 0, sending: false };
        lines.set(key, line);
        line.calls.push({ task, host, options: limits, resolve, reject });
        void send(key, line);
      });
    },
    retire(prefix, { atOnce = false } = {}) {
      if (atOnce) {
        for (const [key, line] of lines) {
          if (!key.startsWith(prefix)) continue;
          line.sent = 0;
          for (const call of line.calls.splice(0)) call.resolve(aborted('The source was deleted.'));
        }
      }
      processes.retire(prefix, atOnce);
    },
    allowNetworks: options.egress.allowNetworks,
    stats: processes.stats,
    async close() {
      closed = true;
      await processes.close();
    },
  };
}

import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { ThrownError } from '@wellspring/component/child/program-types';
import { LIMITS } from '@wellspring/contract/limits';
import type { Clock } from '@wellspring/core/clock';
import type { Host, Result } from './port.ts';
import { type CallFrame, createFrameReader, encodeFrame, FRAME, ProtocolError } from './protocol.ts';
import { type ChildSays, readFrame } from './read-frames.ts';
import type { Tier } from './tiers/tier.ts';

type Reason = Extract<Result, { ok: false }>['reason'];

/** One process that holds user code. It carries out one call at a time; further ones wait inside of it, in order. */
export interface Child {
  /** Resolves when it can take calls. @throws Error when it ended before */
  ready: Promise<void>;
  /** Gives undefined when the process ended before the call was begun: it may be made again elsewhere. */
  call(
    frame: CallFrame,
    host: Host,
    options: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<Result | undefined>;
  /** False: it has ended, or is not to be used again. */
  readonly usable: boolean;
  /** Bytes of memory that it holds, while it can be told. */
  residentBytes(): number | undefined;
  /** Ends it at once; a call under way ends with this reason. */
  kill(reason: Reason, message: string): void;
  ended: Promise<void>;
}

/** A frame holds at most one emit with its head. */
const LARGEST_FRAME = LIMITS.emit + 64 * 1024;
const MOST_LOG_LINES = 2000;
const MOST_FAULTS = 100;
/** Of the last words on stderr. */
const STDERR_BYTES = 8 * 1024;
const PAGE_BYTES = 4096;

const NAMES: Record<string, string> = {
  timeout: 'TimeoutError',
  memory: 'MemoryError',
  crash: 'CrashError',
  protocol: 'ProtocolError',
  aborted: 'AbortError',
};

interface Call {
  host: Host;
  timeoutMs: number;
  /** performance.now() when its turn came; 0 before. */
  began: number;
  timer: NodeJS.Timeout | undefined;
  emits: number;
  bytes: number;
  lines: number;
  faults: number;
  end(result: Result | undefined): void;
}

export function startChild(tier: Tier, slot: string, clock: Clock): Child {
  const started = tier.spawn(slot);
  const frames = started.stdio[3] as Socket;
  /** In the order in which the process carries them out; the first one is under way. */
  const calls: Call[] = [];
  let call: Call | undefined;
  let usable = true;
  let lastWords = '';
  let nodePid: number | undefined;
  let killed: { reason: Reason; message: string } | undefined;
  let becomeReady: () => void = () => {};
  let failReady: (error: Error) => void = () => {};
  const ready = new Promise<void>((resolve, reject) => {
    becomeReady = resolve;
    failReady = reject;
  });
  ready.catch(() => {});

  /** The turn of a call begins when the one before it has ended. */
  function begin(): void {
    call = calls[0];
    if (!call) return;
    const { timeoutMs } = call;
    call.began = performance.now();
    call.timer = setTimeout(() => kill('timeout', `It took longer than ${timeoutMs / 1000} s.`), timeoutMs);
  }

  function finish(result: Result): void {
    const done = calls.shift();
    if (!done) return;
    clearTimeout(done.timer);
    done.end(result);
    call = undefined;
    if (usable) begin();
    else for (const waiting of calls.splice(0)) waiting.end(undefined);
  }

  const failure = (reason: Reason, error: ThrownError): Result => ({
    ok: false,
    reason,
    error,
    durationMs: call ? performance.now() - call.began : 0,
    cpuMs: call ? performance.now() - call.began : 0,
  });

  const fail = (reason: Reason, message: string) =>
    finish(failure(reason, { name: NAMES[reason] ?? 'Error', message, stack: '' }));

  function kill(reason: Reason, message: string): void {
    usable = false;
    killed ??= { reason, message };
    started.kill('SIGKILL');
    fail(reason, message);
  }

  /** What a call may do is counted before it is done. */
  function act(says: Extract<ChildSays, { type: 'act' }>, type: number): void {
    if (!call) return;
    call.bytes += says.bytes;
    if (call.bytes > LIMITS.runBytes) {
      kill('protocol', `The run emitted and logged more than ${LIMITS.runBytes / 1024 / 1024} MB.`);
      return;
    }
    if (says.emit && ++call.emits > LIMITS.emits) {
      kill('protocol', `The run emitted more than ${LIMITS.emits} events.`);
      return;
    }
    if (type === FRAME.fault && ++call.faults > MOST_FAULTS) return;
    if (type === FRAME.log) {
      call.lines += 1;
      if (call.lines > MOST_LOG_LINES) return;
      if (call.lines === MOST_LOG_LINES) {
        const msg = 'Further lines of this run were dropped.';
        call.host.log({ ts: clock.now(), level: 'warn', msg });
        return;
      }
    }
    says.apply(call.host);
  }

  const read = createFrameReader(LARGEST_FRAME, (type, content) => {
    if (killed) return;
    const says = readFrame(type, content);
    if (says.type === 'ready') return becomeReady();
    if (says.type === 'act') return act(says, type);
    if (!call) return;
    const { ok, error, reason, definition, cpuMs, tainted } = says.end;
    if (tainted) {
      usable = false;
      // What waits behind this call has begun in there, perhaps, but nobody has heard of it yet.
      if (calls.length > 1) started.kill('SIGKILL');
    }
    const durationMs = performance.now() - call.began;
    const spent = { durationMs, cpuMs: Math.min(cpuMs, durationMs * 8) };
    if (ok) finish({ ok: true, ...spent, ...(definition ? { definition } : {}) });
    else finish({ ok: false, ...spent, error: error!, reason: reason ?? 'thrown' });
  });

  frames.on('data', (chunk: Buffer) => {
    try {
      read(chunk);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      kill('protocol', `The process of the code sent ${error.message}.`);
    }
  });
  frames.on('error', () => {});

  /** What code writes to its standard streams by itself. */
  const line = (level: 'info' | 'error') => (chunk: Buffer) => {
    if (level === 'error') lastWords = (lastWords + chunk.toString('utf8')).slice(-STDERR_BYTES);
    if (!call) return;
    for (const msg of chunk.toString('utf8').split('\n')) {
      if (msg === '' || call.lines >= MOST_LOG_LINES) continue;
      call.lines += 1;
      call.host.log({ ts: clock.now(), level, msg });
    }
  };
  started.stdout?.on('data', line('info'));
  started.stderr?.on('data', line('error'));

  const ended = new Promise<void>((resolve) => {
    const over = (how: string) => {
      usable = false;
      failReady(new Error(`the sandbox ended before it was ready (${how}): ${lastWords.trim()}`));
      const memory = /heap out of memory|Allocation failed/.test(lastWords);
      if (memory) fail('memory', `The code used more memory than ${LIMITS.memoryMb} MB.`);
      else if (killed) fail(killed.reason, killed.message);
      else fail('crash', `The process of the code ended (${how}).`);
      resolve();
    };
    started.on('error', (error) => over(error.message));
    started.on('close', (code, signal) => over(signal ?? `exit code ${code}`));
  });

  return {
    ready,
    ended,
    kill,
    get usable() {
      return usable;
    },
    residentBytes() {
      nodePid ??= innermost(started.pid);
      if (nodePid === undefined) return undefined;
      try {
        return Number(readFileSync(`/proc/${nodePid}/statm`, 'utf8').split(' ')[1]) * PAGE_BYTES;
      } catch {
        return undefined;
      }
    },
    call(frame, host, { timeoutMs, signal }) {
      return new Promise<Result | undefined>((resolve) => {
        const abort = () => kill('aborted', 'The call was given up.');
        if (!usable) return resolve(undefined);
        signal?.addEventListener('abort', abort, { once: true });
        calls.push({
          host,
          timeoutMs,
          began: 0,
          timer: undefined,
          emits: 0,
          bytes: 0,
          lines: 0,
          faults: 0,
          end(result) {
            signal?.removeEventListener('abort', abort);
            resolve(result);
          },
        });
        if (calls.length === 1) begin();
        if (frames.writableCorked === 0) {
          // Calls made in one turn leave in one write.
          frames.cork();
          process.nextTick(() => frames.uncork());
        }
        frames.write(encodeFrame(FRAME.call, frame));
      });
    },
  };
}

/** The process that runs Node: the last of a chain of only children. */
function innermost(pid: number | undefined): number | undefined {
  if (pid === undefined || process.platform !== 'linux') return undefined;
  try {
    let current = pid;
    for (;;) {
      const [child] = readFileSync(`/proc/${current}/task/${current}/children`, 'utf8').trim().split(' ');
      if (!child) return current;
      current = Number(child);
    }
  } catch {
    return undefined;
  }
}

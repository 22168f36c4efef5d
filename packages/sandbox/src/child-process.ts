import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import type { LogLine, ThrownError } from '@wellspring/component/child/program-types';
import { LIMITS } from '@wellspring/contract/limits';
import type { Clock } from '@wellspring/core/clock';
import { truncateUtf8 } from '@wellspring/core/truncate';
import { type Budget, createBudget } from './budget.ts';
import type { Host, Result } from './port.ts';
import {
  type CallFrame,
  createFrameReader,
  type EndFrame,
  encodeFrame,
  FRAME,
  ProtocolError,
} from './protocol.ts';
import { type ChildSays, readFrame } from './read-frames.ts';
import type { Slot } from './slots.ts';
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
const HEAD_BYTES = 5;
/** What a process may say while no call is under way; it is dropped. */
const LATE_BYTES = 1024 * 1024;
/** From the end of its frames to the end of the process, when it ends by itself. */
const LEAVE_MS = 200;
/** Of the last words on stderr. */
const STDERR_BYTES = 8 * 1024;
const PAGE_BYTES = 4096;
/** No more processor time is believed than so many of them give. */
const MOST_CPUS = 8;
const GIVEN_UP = 'The call was given up.';

/** Without the paths of the host. */
const insideOnly = (text: string) => text.replaceAll(process.execPath, 'node');

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
  budget: Budget;
  aborted: boolean;
  end(result: Result | undefined): void;
}

export function startChild(tier: Tier, slot: Slot, clock: Clock): Child {
  const started = tier.spawn(slot);
  const frames = started.stdio[3] as Socket;
  /** In the order in which the process carries them out; the first one is under way. */
  const calls: Call[] = [];
  let call: Call | undefined;
  let usable = true;
  let spoiled = false;
  let lateBytes = 0;
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
    lateBytes = 0;
    const { timeoutMs, aborted } = call;
    if (aborted) {
      kill('aborted', GIVEN_UP);
      return;
    }
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
    tier.kill(started);
    // Killed while it starts, bubblewrap may leave a child that does not know of its death yet: it ends by this.
    frames.destroy();
    fail(reason, message);
  }

  /** Bytes that came from the process. @returns whether it may go on */
  function heard(bytes: number): boolean {
    if (!call) {
      lateBytes += bytes;
      if (lateBytes > LATE_BYTES) kill('protocol', 'The code does not stop talking after its end.');
      return false;
    }
    const exceeded = call.budget.spend(bytes);
    if (exceeded !== undefined) kill('protocol', exceeded);
    return exceeded === undefined;
  }

  function log(level: LogLine['level'], msg: string, ts = clock.now()): void {
    if (!call) return;
    const line = call.budget.line();
    if (line === 'take') call.host.log({ ts, level, msg });
    if (line === 'last') {
      call.host.log({ ts, level: 'warn', msg: 'Further lines of this run were dropped.' });
    }
  }

  function act(says: Extract<ChildSays, { type: 'act' }>, type: number): void {
    if (!call) return;
    const { budget, host } = call;
    const exceeded = says.emit ? budget.emit() : undefined;
    if (exceeded !== undefined) kill('protocol', exceeded);
    if (!usable) return;
    if (type === FRAME.fault && !budget.fault()) return;
    if (type === FRAME.respond && !budget.reply()) return;
    says.apply(type === FRAME.log ? { ...host, log: ({ level, msg, ts }) => log(level, msg, ts) } : host);
  }

  function end({ ok, error, reason, definition, cpuMs }: EndFrame): void {
    const durationMs = performance.now() - call!.began;
    const spent = { durationMs, cpuMs: Math.min(cpuMs, durationMs * MOST_CPUS) };
    // What waits behind this call has begun in there, perhaps, but nobody has heard of it yet.
    if (spoiled) usable = false;
    if (ok) finish({ ok: true, ...spent, ...(definition ? { definition } : {}) });
    else finish({ ok: false, ...spent, error: error!, reason: reason ?? 'thrown' });
  }

  const read = createFrameReader(LARGEST_FRAME, (type, content) => {
    if (killed) return;
    // Whatever it says counts, and what nobody waits for is not even read.
    const counts = heard(HEAD_BYTES + content.length);
    if (killed || (!counts && type !== FRAME.ready && type !== FRAME.spoiled)) return;
    const says = readFrame(type, content);
    if (says.type === 'ready') return becomeReady();
    if (says.type === 'act') return act(says, type);
    if (says.type === 'spoiled') spoiled = true;
    else if (call) end(says.end);
    if (spoiled && !call) kill('aborted', 'Something escaped from the code.');
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
  // Without its frames a process is of no use, even if it lives on.
  frames.on('close', () => {
    const late = setTimeout(() => kill('crash', 'The process of the code closed its connection.'), LEAVE_MS);
    ended.finally(() => clearTimeout(late));
  });

  /** What code writes to its standard streams by itself. */
  const hear = (stream: Readable | null, level: 'info' | 'error') =>
    stream?.setEncoding('utf8').on('data', (text: string) => {
      if (level === 'error') lastWords = (lastWords + text).slice(-STDERR_BYTES);
      if (killed || !heard(text.length)) return;
      for (const msg of text.split('\n')) {
        if (msg !== '') log(level, truncateUtf8(insideOnly(msg), LIMITS.logLine));
      }
    });
  hear(started.stdout, 'info');
  hear(started.stderr, 'error');

  const ended = new Promise<void>((resolve) => {
    const over = (how: string, exitCode: number | null = null) => {
      usable = false;
      failReady(new Error(`the sandbox ended before it was ready (${how}): ${lastWords.trim()}`));
      const memory = /heap out of memory|Allocation failed/.test(lastWords);
      const limit = tier.endedFor?.(exitCode);
      if (limit !== undefined) fail('memory', limit);
      else if (memory) fail('memory', `The code used more memory than ${LIMITS.memoryMb} MB.`);
      else if (killed) fail(killed.reason, killed.message);
      else fail('crash', `The process of the code ended (${how}).`);
      resolve();
    };
    started.on('error', (error) => over(error.message));
    started.on('close', (code, signal) => over(signal ?? `exit code ${code}`, code));
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
        if (!usable) return resolve(undefined);
        const abort = () => {
          made.aborted = true;
          // One that waits is given up when its turn comes: those before it are not to suffer.
          if (calls[0] === made) kill('aborted', GIVEN_UP);
        };
        const made: Call = {
          host,
          timeoutMs,
          began: 0,
          timer: undefined,
          budget: createBudget(),
          aborted: signal?.aborted === true,
          end(result) {
            signal?.removeEventListener('abort', abort);
            resolve(result);
          },
        };
        signal?.addEventListener('abort', abort, { once: true });
        calls.push(made);
        if (calls.length === 1) begin();
        if (!usable) return;
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

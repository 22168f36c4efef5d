import type { LogLine, ThrownError } from '@wellspring/component/program/program-types';
import { LIMITS } from '@wellspring/contract/limits';
import type { Clock } from '@wellspring/core/clock';
import { type Budget, createBudget } from './budget.ts';
import { createChildUsage } from './child-usage.ts';
import { createDeadline } from './deadline.ts';
import { createFrameChannel } from './frame-channel.ts';
import type { FrameParser } from './frame-parser.ts';
import { type ChildMessage, maxFrameBytes } from './frame-schema.ts';
import type { Host, Result } from './port.ts';
import { type CallFrame, type EndFrame, encodeFrame, FRAME } from './protocol.ts';
import type { Slot } from './slots.ts';
import type { SpawnedProcess } from './spawner/spawner.ts';
import { captureStreams } from './standard-streams.ts';
import type { Tier } from './tiers/tier.ts';
import type { Turns } from './turns.ts';

type Reason = Extract<Result, { ok: false }>['reason'];

/** One process that holds user code. It carries out one call at a time; further ones wait inside of it, in order. */
export interface Child {
  /** Resolves when it can take calls. @throws Error when it ended before */
  ready: Promise<void>;
  /** @param done gets undefined when the process ended before the call was begun: it may be made again elsewhere */
  call(
    frame: CallFrame,
    host: Host,
    options: { timeoutMs: number; signal?: AbortSignal },
    done: (result: Result | undefined) => void,
  ): void;
  /** False: it has ended, or must not be used again. */
  readonly usable: boolean;
  /** Whose code it runs: owners share the time that the platform takes for the frames of their processes. */
  owner: string;
  /** Ends the process when it has more of something than it may have. Resolves when that was looked at. */
  check(): Promise<void>;
  /**
   * Stops the process until its next call, so that it uses no processor time.
   * @returns whether it is stopped: not while a call is under way, nor where the platform may not signal it
   */
  freeze(): boolean;
  /** Bytes of memory that are its own, while the kernel tells. */
  privateBytes(): number | undefined;
  /** Ends it at once; a call under way ends with this reason. */
  kill(reason: Reason, message: string): void;
  ended: Promise<void>;
}

export interface ChildOptions {
  started: SpawnedProcess;
  tier: Tier;
  slot: Slot;
  clock: Clock;
  turns: Turns;
  parser: FrameParser;
}

/** What a process may send while no call is under way; it is dropped. */
const MAX_LATE_BYTES = 256 * 1024;
/** From the end of its frames to the end of the process, when it ends by itself: files may have to be removed. */
const EXIT_MS = 3000;
const ABORTED = 'The call was aborted.';

const NAMES: Record<string, string> = {
  timeout: 'TimeoutError',
  memory: 'MemoryError',
  limit: 'LimitError',
  crash: 'CrashError',
  protocol: 'ProtocolError',
  aborted: 'AbortError',
};

interface Call {
  host: Host;
  timeoutMs: number;
  isDefine: boolean;
  /** performance.now() when its turn came; 0 before. */
  began: number;
  budget: Budget;
  aborted: boolean;
  end(result: Result | undefined): void;
}

export function createChild({ started, tier, slot, clock, turns, parser }: ChildOptions): Child {
  const socket = started.frames;
  const usage = createChildUsage(tier, slot, started.pid);
  /** In the order in which the process carries them out; the first one is under way. */
  const calls: Call[] = [];
  let call: Call | undefined;
  let usable = true;
  let spoiled = false;
  let frozen = false;
  let checking = false;
  /** Asked for while a look was under way, which may have seen less than there is now. */
  let checkAgain = false;
  let lateBytes = 0;
  let killed: { reason: Reason; message: string } | undefined;
  const timeout = createDeadline(() => {
    if (call) kill('timeout', `It took longer than ${call.timeoutMs / 1000} s.`);
  });
  const ready = Promise.withResolvers<void>();
  ready.promise.catch(() => {});

  /** The turn of a call begins when the one before it has ended. */
  function begin(): void {
    call = calls[0];
    if (!call) return;
    lateBytes = 0;
    if (call.aborted) {
      kill('aborted', ABORTED);
      return;
    }
    call.began = performance.now();
    timeout.set(call.began + call.timeoutMs, call.began);
  }

  /** Durations of the call under way. */
  function spent(): { durationMs: number; cpuMs: number } {
    const durationMs = call ? performance.now() - call.began : 0;
    return { durationMs, cpuMs: usage.takeCpuMs(durationMs) };
  }

  function finish(result: Result): void {
    const done = calls.shift();
    if (!done) return;
    call = undefined;
    timeout.unset();
    done.end(result);
    if (usable) begin();
    else for (const waiting of calls.splice(0)) waiting.end(undefined);
  }

  function fail(reason: Reason, message: string): void {
    if (calls.length === 0) return;
    const error: ThrownError = { name: NAMES[reason] ?? 'Error', message, stack: '' };
    finish({ ok: false, reason, error, ...spent() });
  }

  function kill(reason: Reason, message: string): void {
    usable = false;
    killed ??= { reason, message };
    channel.close();
    fail(reason, message);
    timeout.close();
    started.kill();
    // Of what is on its way nothing is taken any more.
    socket.destroy();
  }

  /** Bytes that arrived from the process, whatever they mean. */
  function charge(bytes: number): void {
    if (killed) return;
    if (call) {
      const excess = call.budget.spend(bytes);
      if (excess !== undefined) kill('protocol', excess);
      return;
    }
    lateBytes += bytes;
    if (lateBytes > MAX_LATE_BYTES) kill('protocol', 'The code sent too much after the end of its run.');
  }

  /** @returns whether further lines of this run are taken */
  function log({ level, msg, ts }: LogLine): boolean {
    if (!call) return false;
    const line = call.budget.line(msg.length);
    if (line === 'take') call.host.log({ ts, level, msg });
    if (line === 'last') {
      call.host.log({ ts, level: 'warn', msg: 'Further lines of this run were dropped.' });
    }
    return line === 'take';
  }

  function becomeReady(): void {
    usage.begin();
    ready.resolve();
  }

  /** Emits, log lines and the like that come between calls are dropped. */
  function receive(message: ChildMessage): void {
    if (killed) return;
    if (message.type === 'ready') becomeReady();
    else if (message.type === 'spoiled') {
      spoiled = true;
      if (!call) kill('aborted', 'An error escaped from the code.');
    } else if (call) act(message, call);
    // The child's program sends one end for each call: one of the two was forged.
    else if (message.type === 'end') kill('protocol', 'The process of the code sent an end without a call.');
  }

  function act(message: ChildMessage, { host, budget }: Call): void {
    switch (message.type) {
      case 'emit': {
        const excess = budget.emit();
        if (excess === undefined) host.emit(message.emit);
        else kill('protocol', excess);
        break;
      }
      case 'fault':
        if (budget.fault()) host.fault(message.error);
        break;
      case 'respond':
        if (budget.reply()) host.respond(message.reply);
        break;
      case 'log':
        log(message.line);
        break;
      case 'dbSet':
        host.dbSet(message.set.key, message.set.json ?? undefined);
        break;
      case 'end':
        end(message.end);
    }
  }

  function end({ ok, error, reason, definition }: EndFrame): void {
    const times = spent();
    // What waits behind this call has begun in there, perhaps, but nobody has heard of it yet.
    if (spoiled) usable = false;
    if (ok) finish({ ok: true, ...times, ...(definition ? { definition } : {}) });
    else finish({ ok: false, ...times, error: error!, reason: reason ?? 'thrown' });
    if (spoiled) kill('aborted', 'An error escaped from the code.');
  }

  const channel = createFrameChannel({
    socket,
    turns,
    parser,
    owner: () => child.owner,
    maxBytes: (type) => maxFrameBytes(type, call?.isDefine === true),
    onBytes: charge,
    onMessage: receive,
    onViolation: (what) => kill('protocol', `The process of the code sent ${what}.`),
  });
  // Without its frames a process is of no use, even if it lives on.
  socket.on('close', () => {
    const late = setTimeout(() => kill('crash', 'The process of the code closed its connection.'), EXIT_MS);
    ended.finally(() => clearTimeout(late));
  });

  const stderrTail = captureStreams(started, {
    clock,
    onText(chars) {
      charge(chars);
      return !killed && call !== undefined;
    },
    onLine: log,
  });

  const ended = started.ended.then(async ({ exitCode, signal }) => {
    // What it sent before its end still counts.
    await channel.drained();
    channel.close();
    usable = false;
    const how = signal ?? `exit code ${exitCode}`;
    ready.reject(new Error(`the sandbox ended before it was ready (${how}): ${stderrTail().trim()}`));
    const isMemory = /heap out of memory|Allocation failed/.test(stderrTail());
    const limit = tier.endedFor?.(exitCode);
    if (limit !== undefined) fail('limit', limit);
    else if (isMemory) fail('memory', `The code used more memory than ${LIMITS.memoryMb} MB.`);
    else if (killed) fail(killed.reason, killed.message);
    else fail('crash', `The process of the code ended (${how}).`);
    timeout.close();
    usage.close();
  });

  async function look(): Promise<void> {
    const excess = usable ? await usage.findExcess(call?.timeoutMs) : undefined;
    if (excess) kill(excess.reason, excess.message);
  }

  const uncork = () => socket.uncork();

  const child: Child = {
    ready: ready.promise,
    ended,
    kill,
    owner: '',
    get usable() {
      return usable;
    },
    privateBytes: usage.privateBytes,
    freeze() {
      if (usable && calls.length === 0) frozen ||= usage.stop();
      return frozen;
    },
    async check() {
      checkAgain = checking;
      if (checking) return;
      checking = true;
      do {
        checkAgain = false;
        await look();
      } while (checkAgain);
      checking = false;
    },
    call(frame, host, { timeoutMs, signal }, done) {
      if (!usable) return done(undefined);
      const abort = () => {
        made.aborted = true;
        // One that waits is aborted when its turn comes: those before it are not to suffer.
        if (calls[0] === made) kill('aborted', ABORTED);
      };
      const made: Call = {
        host,
        timeoutMs,
        isDefine: frame.call.kind === 'define',
        began: 0,
        budget: createBudget(),
        aborted: signal?.aborted === true,
        end(result) {
          signal?.removeEventListener('abort', abort);
          done(result);
        },
      };
      signal?.addEventListener('abort', abort, { once: true });
      calls.push(made);
      if (calls.length === 1) begin();
      if (!usable) return;
      if (frozen) {
        frozen = false;
        usage.resume();
      }
      if (calls.length > 1 && socket.writableCorked === 0) {
        // Calls made ahead in one turn leave in one write. A process that waits gets its call at once.
        socket.cork();
        process.nextTick(uncork);
      }
      socket.write(encodeFrame(FRAME.call, frame));
    },
  };
  return child;
}

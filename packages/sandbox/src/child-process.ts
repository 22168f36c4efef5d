import { LIMITS } from '@wellspring/contract/limits';
import { createBudget } from './budget.ts';
import { passOn, passOnLine } from './call-output.ts';
import { type Child, type ChildOptions, errorOf, type Reason, type UnfinishedCall } from './child.ts';
import { createChildUsage } from './child-usage.ts';
import { createDeadline } from './deadline.ts';
import { createFrameChannel } from './frame-channel.ts';
import { type ChildMessage, maxFrameBytes } from './frame-schema.ts';
import type { Result } from './port.ts';
import { createProcessStops } from './process-stops.ts';
import { type EndFrame, encodeCall } from './protocol.ts';
import type { Excess } from './resource-limits.ts';
import { captureStreams } from './standard-streams.ts';

/** Bytes that a process may send between calls; they are dropped. */
const MAX_LATE_BYTES = 256 * 1024;
/** Time from closing the frame connection to the end of a process that exits by itself, including file removal. */
const EXIT_MS = 3000;
const ABORTED = 'The call was aborted.';

export function createChild({ spawned, tier, directory, clock, turns, parser, blocks }: ChildOptions): Child {
  const { socket } = spawned.frames;
  const usage = createChildUsage(tier, directory, spawned.pid);
  const stops = createProcessStops(usage);
  /** In order of execution; the first one is the current call. */
  const calls: UnfinishedCall[] = [];
  let call: UnfinishedCall | undefined;
  let usable = true;
  let spoiled = false;
  let checking: Promise<void> | undefined;
  /** A check was requested during another one, whose figures may be outdated. */
  let checkAgain = false;
  let lateBytes = 0;
  /** Bytes of the current frame that were counted for the current call. */
  let frameBytes = 0;
  let isReady = false;
  /** A result, or the platform, accounts for its end. */
  let isEndCounted = false;
  let killed: { reason: Reason; message: string } | undefined;
  const timeout = createDeadline(() => {
    if (call) kill('timeout', `The call took longer than ${call.timeoutMs / 1000} s.`);
  });
  const ready = Promise.withResolvers<void>();
  ready.promise.catch(() => {});

  /** Begins the next call, after the previous one has ended. */
  function begin(): void {
    call = calls[0];
    frameBytes = 0;
    if (!call) return;
    lateBytes = 0;
    if (call.aborted) {
      kill('aborted', ABORTED);
      return;
    }
    call.began = performance.now();
    timeout.set(call.began + call.timeoutMs, call.began);
    call.onBegin?.();
  }

  /** Durations of the current call. */
  function measure(cpuMs = usage.takeCpuMs): { durationMs: number; cpuMs: number } {
    const durationMs = call ? performance.now() - call.began : 0;
    return { durationMs, cpuMs: cpuMs(durationMs) };
  }

  function finish(result: Result): void {
    streams.endLines();
    const done = calls.shift();
    if (!done) return;
    call = undefined;
    timeout.unset();
    isEndCounted ||= !usable;
    done.end(usable ? result : { ...result, endedProcesses: 1 });
    if (usable) begin();
    else for (const waiting of calls.splice(0)) waiting.end(undefined);
  }

  function fail(reason: Reason, message: string): void {
    if (calls.length === 0) return;
    finish({ ok: false, reason, error: errorOf(reason, message), ...measure() });
  }

  function kill(reason: Reason, message: string): void {
    usable = false;
    killed ??= { reason, message };
    if (!call) usage.sample();
    channel.close();
    fail(reason, message);
    timeout.close();
    spawned.kill();
    // Discards data in transit.
    socket.destroy();
  }

  /** Ends the process if a limit was exceeded. */
  function isWithin(excess: string | undefined): boolean {
    if (excess !== undefined) kill('protocol', excess);
    return excess === undefined;
  }

  /** Counts bytes that arrived from the process. */
  function charge(bytes: number): void {
    if (killed) return;
    if (call) {
      isWithin(call.budget.spend(bytes));
      return;
    }
    lateBytes += bytes;
    if (lateBytes > MAX_LATE_BYTES) kill('protocol', 'The code sent too much after the end of its run.');
  }

  /** Once: code that repeats the frame would not be charged for what it has used. */
  function becomeReady(): void {
    if (isReady) return;
    isReady = true;
    usage.begin();
    ready.resolve();
  }

  /** Drops emits, log lines and other output between calls. */
  function receive(message: ChildMessage): void {
    if (killed) return;
    const bytes = frameBytes;
    frameBytes = 0;
    if (message.type === 'ready') becomeReady();
    else if (message.type === 'spoiled') {
      spoiled = true;
      if (!call) kill('crash', 'An error escaped from the code.');
    } else if (message.type === 'end') {
      // The child's program sends one end per call: one of the two was forged.
      if (call) end(message.end);
      else kill('protocol', 'The process of the code sent an end without a call.');
    } else if (call) {
      const { room } = call;
      if (passOn(message, call, isWithin)) room?.keep();
      else room?.add(-bytes);
    }
  }

  function end(answer: EndFrame): void {
    const { durationMs, cpuMs } = measure(usage.takeCallCpuMs);
    // The next call may have begun in the process, but nothing of its output was accepted.
    if (spoiled) usable = false;
    finish({ ...answer, durationMs, cpuMs });
    if (spoiled) kill('crash', 'An error escaped from the code.');
  }

  /** Stops the process until there is room for its output: code may spin in its writes meanwhile. */
  function stopUntil(room: Promise<void> | undefined): Promise<void> | undefined {
    if (!room || !stops.add('full')) return room;
    return room.finally(() => stops.remove('full'));
  }

  const channel = createFrameChannel({
    connection: spawned.frames,
    blocks,
    turns,
    parser,
    owner: () => child.owner,
    maxBytes: (type) => maxFrameBytes(type, call?.kind),
    onBytes(count) {
      frameBytes += count;
      call?.room?.add(count);
      charge(count);
    },
    makeRoom: (bytes) => stopUntil(call?.room?.make(bytes)),
    onMessage: receive,
    onViolation: (what) => kill('protocol', `The process of the code sent ${what}.`),
  });
  // Without the connection the process cannot be used, even if it is alive.
  socket.on('close', () => {
    const late = setTimeout(() => kill('crash', 'The process of the code closed its connection.'), EXIT_MS);
    ended.finally(() => clearTimeout(late));
  });

  const streams = captureStreams(spawned, {
    clock,
    onText(chars) {
      charge(chars);
      return !killed && call !== undefined;
    },
    onLine(line) {
      if (!call || !passOnLine(line, call)) return false;
      call.room?.add(line.msg.length);
      call.room?.keep();
      return true;
    },
  });

  const ended = spawned.ended.then(async ({ exitCode, signal }) => {
    // Frames that were sent before the end still count.
    await channel.drained();
    channel.close();
    usable = false;
    const how = signal ?? `exit code ${exitCode}`;
    ready.reject(new Error(`The sandbox ended before it was ready (${how}): ${streams.stderrTail().trim()}`));
    const isMemory = /heap out of memory|Allocation failed/.test(streams.stderrTail());
    const limit = tier.endedFor?.(exitCode);
    if (limit !== undefined) fail('limit', limit);
    else if (isMemory) fail('memory', `Out of memory: the limit is ${LIMITS.memoryMb} MB.`);
    else if (killed) fail(killed.reason, killed.message);
    else fail('crash', `The process of the code ended (${how}).`);
    timeout.close();
    const cpuMs = usage.takeCpuMs(0);
    usage.close();
    const isFault = killed?.reason !== 'aborted';
    return { cpuMs, endedProcesses: isEndCounted ? 0 : 1, isFault } as const;
  });

  async function checkUsage(isQuick: boolean): Promise<void> {
    let quick = isQuick;
    let excess: Excess | undefined;
    do {
      checkAgain = false;
      excess = usable ? await usage.findExcess(call?.timeoutMs, quick) : undefined;
      quick = false;
    } while (!excess && checkAgain);
    if (excess) kill(excess.reason, excess.message);
  }

  const uncork = () => socket.uncork();

  const child: Child = {
    ready: ready.promise,
    ended,
    kill(reason, message) {
      isEndCounted = true;
      kill(reason, message);
    },
    sample: usage.sample,
    owner: '',
    get usable() {
      return usable;
    },
    get memoryBytes() {
      return usage.memoryBytes;
    },
    freeze: () => usable && calls.length === 0 && stops.add('frozen'),
    hold: () => usable && stops.add('held'),
    letGo: () => stops.remove('held'),
    cpuMs: usage.cpuMs,
    check(isQuick = false) {
      if (checking && !isQuick) checkAgain = true;
      checking ??= checkUsage(isQuick).finally(() => {
        checking = undefined;
      });
      return checking;
    },
    call(frame, host, { timeoutMs, signal, room, onBegin }, done) {
      if (!usable) return done(undefined);
      const abort = () => {
        queued.aborted = true;
        // A waiting call is aborted when it would begin, so that calls before it are not affected.
        if (calls[0] === queued) kill('aborted', ABORTED);
      };
      const queued: UnfinishedCall = {
        host,
        timeoutMs,
        room,
        onBegin,
        kind: frame.call.kind,
        began: 0,
        budget: createBudget(),
        aborted: signal?.aborted === true,
        end(result) {
          signal?.removeEventListener('abort', abort);
          done(result);
        },
      };
      signal?.addEventListener('abort', abort, { once: true });
      calls.push(queued);
      if (calls.length === 1) begin();
      if (!usable) return;
      stops.remove('frozen');
      if (calls.length > 1 && socket.writableCorked === 0) {
        // Calls queued in one turn of the event loop are sent in one write. The first call is sent immediately.
        socket.cork();
        process.nextTick(uncork);
      }
      socket.write(encodeCall(frame));
    },
  };
  return child;
}

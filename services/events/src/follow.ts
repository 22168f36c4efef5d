import type { Clock } from '@wellspring/core/clock';
import type { Channel } from './channel.ts';
import type { SharedReads } from './frames.ts';

/** The destination of a stream. */
export interface Sink {
  /** Resolves when the reader takes more; false if it is disconnected or too slow. */
  send(text: string): Promise<boolean>;
}

/** `events`: there may be new events; `changed`: access must be checked. */
export type Wake = (why: 'events' | 'changed') => void;

export interface Follow {
  channel: Channel;
  /** Sort key; later events are sent. */
  after: string;
  sink: Sink;
  reads: SharedReads;
  /** Comment that is sent every 15 seconds. */
  keepAlive: string;
  clock: Clock;
  /** Ends the stream. */
  signal: AbortSignal;
  /** Returns a function that unsubscribes. */
  onWake(wake: Wake): () => void;
  /** Whether the stream may continue; called with every comment and on `changed`. */
  mayContinue(): Promise<boolean>;
}

export const KEEP_ALIVE_INTERVAL_MS = 15_000;

/**
 * Sends the events of a channel after a cursor, each once and in order: all are read from the store by sort key, and a
 * wake-up only triggers a read. Resolves when the stream ends.
 */
export async function follow(options: Follow): Promise<void> {
  const { channel, sink, reads, clock, signal } = options;
  let { after } = options;
  let woken = false;
  // The source may have been deleted while the stream was being opened.
  let changed = true;
  let endSleep = () => {};
  const unsubscribe = options.onWake((why) => {
    if (why === 'events') reads.outdated(channel);
    else changed = true;
    woken = true;
    endSleep();
  });
  try {
    let keepAliveAt = clock.now() + KEEP_ALIVE_INTERVAL_MS;
    while (!signal.aborted) {
      woken = false;
      const frames = await reads.read(channel, after);
      if (frames) {
        after = frames.last;
        if (!(await sink.send(frames.text))) return;
      }
      const left = keepAliveAt - clock.now();
      // More than the interval: the clock was set back.
      const due = left <= 0 || left > KEEP_ALIVE_INTERVAL_MS;
      if (due || changed) {
        changed = false;
        if (!(await options.mayContinue())) return;
      }
      if (due) {
        if (!(await sink.send(options.keepAlive))) return;
        keepAliveAt = clock.now() + KEEP_ALIVE_INTERVAL_MS;
      }
      if (frames || woken) continue;
      const ended = new AbortController();
      endSleep = () => ended.abort();
      const ms = Math.min(KEEP_ALIVE_INTERVAL_MS, Math.max(1, keepAliveAt - clock.now()));
      await clock.sleep(ms, AbortSignal.any([signal, ended.signal]));
      endSleep = () => {};
    }
  } finally {
    unsubscribe();
  }
}

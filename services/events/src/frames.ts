import { createByteBudget } from '@wellspring/core/byte-budget';
import type { Channel } from './channel.ts';
import { frameOf } from './record.ts';

/** Consecutive events of a channel as text of a stream. */
export interface Frames {
  text: string;
  /** Sort key of the last one: the cursor for the next read. */
  last: string;
}

/** Shared reads of channels: all streams with the same cursor share one read and one text. */
export interface SharedReads {
  /** The events after a cursor, oldest first; undefined if there are none. */
  read(channel: Channel, after: string): Promise<Frames | undefined>;
  /** To be called for new events: reads in progress may have missed them and are no longer shared. */
  outdated(channel: Channel): void;
}

/** Events per text, and events of the first read: there may be few, and they may be large. */
const PAGE_SIZE = 32;
const FIRST_PAGE_SIZE = 4;
/** Length after which a text ends: each slow reader holds one in memory. */
const MAX_PAGE_CHARS = 256 * 1024;
/** Events that are read at a time, in all channels: each may have 6 MB, which is known when it was read. */
const MAX_READ = 64;

export function createSharedReads(): SharedReads {
  const reading = createByteBudget(MAX_READ);
  const inProgress = new Map<string, Map<string, Promise<Frames | undefined>>>();

  async function load(channel: Channel, after: string): Promise<Frames | undefined> {
    let [text, last, count] = ['', after, 0];
    /** Number of further events that fit, assuming the same average size. */
    const fitting = () =>
      Math.min(PAGE_SIZE - count, Math.ceil(((MAX_PAGE_CHARS - text.length) * count) / text.length));
    for (let size = FIRST_PAGE_SIZE; count < PAGE_SIZE && text.length < MAX_PAGE_CHARS; size = fitting()) {
      const release = await reading.take(size, channel.key);
      try {
        const records = await channel.newer(last, size);
        for (const record of records) {
          text += frameOf(record);
          last = record.sortKey;
          count += 1;
          if (text.length >= MAX_PAGE_CHARS) break;
        }
        if (records.length < size) break;
      } finally {
        release();
      }
    }
    return count === 0 ? undefined : { text, last };
  }

  return {
    async read(channel, after) {
      const reads = inProgress.get(channel.key) ?? new Map<string, Promise<Frames | undefined>>();
      inProgress.set(channel.key, reads);
      let reading = reads.get(after);
      if (!reading) {
        reading = load(channel, after);
        reads.set(after, reading);
      }
      try {
        return await reading;
      } finally {
        if (reads.get(after) === reading) reads.delete(after);
        if (reads.size === 0 && inProgress.get(channel.key) === reads) inProgress.delete(channel.key);
      }
    },
    outdated(channel) {
      inProgress.delete(channel.key);
    },
  };
}

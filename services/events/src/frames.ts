import type { Channel } from './channel.ts';
import { frameOf } from './record.ts';

/** Consecutive events of a channel, ready to be sent. */
export interface Frames {
  text: string;
  /** Sort key of the last one: the cursor for the next read. */
  last: string;
}

/**
 * Reads of channels, shared: all streams that stand at the same place of a channel share one read and one text, so
 * that waking thousands of readers costs the store one question.
 */
export interface SharedReads {
  /** The events after a cursor, oldest first; undefined when there are none yet. */
  read(channel: Channel, after: string): Promise<Frames | undefined>;
  /** Something was added: reads that are under way may have missed it and are not shared any more. */
  outdated(channel: Channel): void;
}

/** Events sent at a time, and the first of them that are read: there may be few, and they may be large. */
const PAGE = 32;
const FIRST = 4;
/** What is sent at a time ends with the event that goes beyond it: each slow reader holds such a text. */
const PAGE_CHARS = 256 * 1024;

export function createSharedReads(): SharedReads {
  const underWay = new Map<string, Map<string, Promise<Frames | undefined>>>();

  async function load(channel: Channel, after: string): Promise<Frames | undefined> {
    let [text, last, count] = ['', after, 0];
    /** How many more there is room for, should they be as large as those before. */
    const fitting = () =>
      Math.min(PAGE - count, Math.ceil(((PAGE_CHARS - text.length) * count) / text.length));
    for (let size = FIRST; count < PAGE && text.length < PAGE_CHARS; size = fitting()) {
      const records = await channel.newer(last, size);
      for (const record of records) {
        text += frameOf(record);
        last = record.sortKey;
        count += 1;
        if (text.length >= PAGE_CHARS) break;
      }
      if (records.length < size) break;
    }
    return count === 0 ? undefined : { text, last };
  }

  return {
    async read(channel, after) {
      const reads = underWay.get(channel.key) ?? new Map<string, Promise<Frames | undefined>>();
      underWay.set(channel.key, reads);
      let reading = reads.get(after);
      if (!reading) {
        reading = load(channel, after);
        reads.set(after, reading);
      }
      try {
        return await reading;
      } finally {
        if (reads.get(after) === reading) reads.delete(after);
        if (reads.size === 0 && underWay.get(channel.key) === reads) underWay.delete(channel.key);
      }
    },
    outdated(channel) {
      underWay.delete(channel.key);
    },
  };
}

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

/** Events read at a time. */
const PAGE = 32;

export function createSharedReads(): SharedReads {
  const underWay = new Map<string, Map<string, Promise<Frames | undefined>>>();

  async function load(channel: Channel, after: string): Promise<Frames | undefined> {
    const records = await channel.newer(after, PAGE);
    const last = records.at(-1);
    return last && { text: records.map(frameOf).join(''), last: last.sortKey };
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

import type { Target } from './policy.ts';

/** What a sandbox did at one destination since the last report. */
export interface Destination extends Target {
  connections: number;
  refused: number;
  sent: number;
  received: number;
}

/** Destinations reported one by one; the rest is summed up under the host `*`. */
const MAX_DESTINATIONS = 64;

/** Counts what a sandbox sends and receives during a run. */
export interface Traffic {
  /** The counters of a destination. The object stays the one of its run, also after a report. */
  at(target: Target): Destination;
  /** Sent and received together since the last report. */
  add(destination: Destination, direction: 'sent' | 'received', bytes: number): void;
  readonly bytes: number;
  /** Nothing was counted since the last report. */
  readonly isEmpty: boolean;
  /** Gives what was counted and starts again from zero; open connections count on. */
  report(): Destination[];
}

export function createTraffic(): Traffic {
  let destinations = new Map<string, Destination>();
  let bytes = 0;

  function at({ host, port }: Target): Destination {
    const isOverflow = destinations.size >= MAX_DESTINATIONS && !destinations.has(`${host} ${port}`);
    const target = isOverflow ? { host: '*', port: 0 } : { host, port };
    const key = `${target.host} ${target.port}`;
    let found = destinations.get(key);
    if (!found) {
      found = { ...target, connections: 0, refused: 0, sent: 0, received: 0 };
      destinations.set(key, found);
    }
    return found;
  }

  return {
    at,
    add(destination, direction, count) {
      bytes += count;
      at(destination)[direction] += count;
    },
    get bytes() {
      return bytes;
    },
    get isEmpty() {
      return destinations.size === 0;
    },
    report() {
      const all = [...destinations.values()];
      destinations = new Map();
      bytes = 0;
      return all;
    },
  };
}

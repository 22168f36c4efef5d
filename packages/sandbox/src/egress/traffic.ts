import type { Target } from './policy.ts';

/** Traffic of a sandbox with one destination since the last report. */
export interface Destination extends Target {
  connections: number;
  refused: number;
  sent: number;
  received: number;
}

/** Destinations reported separately; the others are summed up as host `*`. */
const MAX_DESTINATIONS = 64;

/** Counts the traffic of a sandbox during a run. */
export interface Traffic {
  /** Counters of a destination, which belong to the current report. */
  at(target: Target): Destination;
  add(destination: Destination, direction: 'sent' | 'received', bytes: number): void;
  readonly bytes: number;
  /** No traffic since the last report. */
  readonly isEmpty: boolean;
  /** Returns the counters and resets them; open connections continue to count. */
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

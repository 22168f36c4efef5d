/** How much is sent at a time: pure bookkeeping of one process. */
export interface SlotLimits {
  /** Attempts at a time to one webhook. */
  perWebhook: number;
  /** Attempts at a time in all. */
  total: number;
  /** Bytes of bodies under way in all, and of those that wait; a larger one still goes when nothing else does. */
  bytes: number;
  /** Deliveries to one webhook that may wait in memory. */
  line: number;
  /** Deliveries that may wait in memory in all. */
  lines: number;
}

/** `start`: a slot was taken; `wait`: `next` will give it; `park`: it has to wait in the store. */
export type Offer = 'start' | 'wait' | 'park';

/**
 * Slots for attempts, shared fairly: no webhook ever holds more than its limit; the webhooks whose deliveries wait,
 * in memory or parked in the store, take turns; within a webhook the older goes first.
 */
export interface Slots<T> {
  /** `claimed`: it comes out of the store by `turn`, so it is not behind what is parked there. */
  offer(webhookId: string, bytes: number, item: T, now: number, claimed?: boolean): Offer;
  /** How many more deliveries to this webhook find a place in memory, if they are small. */
  room(webhookId: string): number;
  /** Gives back a slot that `offer` or `next` took. */
  release(webhookId: string, bytes: number): void;
  /** The next waiting item that may start; its slot is taken. */
  next(): T | undefined;
  /** Takes those out of the lines that wait since before `since`: they have to be parked. */
  expire(since: number): T[];
  /** Deliveries of this webhook are, or are not any more, parked in the store. */
  setParked(webhookId: string, parked: boolean): void;
  /**
   * Of which webhook parked deliveries may be claimed, and how many; undefined when of none. The more each time the
   * quicker they go: some may have to wait in memory, and as many as have slots again after some waited too long.
   */
  turn(): { webhookId: string; count: number } | undefined;
  /** There would be a turn. */
  readonly anyTurn: boolean;
  readonly taken: number;
  readonly waiting: number;
}

interface Entry<T> {
  item: T;
  bytes: number;
  since: number;
}
interface Lane<T> {
  held: number;
  line: Entry<T>[];
  parked: boolean;
  /** How many may be claimed in its next turn. */
  claim: number;
}

/** Most parked deliveries claimed in one turn, in multiples of the slots of a webhook. */
const LARGEST_CLAIM = 16;

export function createSlots<T>(limits: SlotLimits): Slots<T> {
  // In the order of turns: who had one goes to the end.
  const lanes = new Map<string, Lane<T>>();
  let taken = 0;
  let takenBytes = 0;
  let waiting = 0;
  let waitingBytes = 0;
  /** Those of the lanes that are parked. */
  const parkedLanes = new Set<Lane<T>>();

  const fits = (bytes: number) => taken === 0 || (taken < limits.total && takenBytes + bytes <= limits.bytes);

  function take(lane: Lane<T>, bytes: number): void {
    lane.held += 1;
    taken += 1;
    takenBytes += bytes;
  }
  const laneOf = (webhookId: string): Lane<T> =>
    lanes.get(webhookId) ?? { held: 0, line: [], parked: false, claim: limits.perWebhook };
  const full = () => taken > 0 && (taken >= limits.total || takenBytes >= limits.bytes);
  /** Deliveries of it are parked, none wait in memory, and it has a free slot. */
  const canClaim = (lane: Lane<T>) => lane.parked && lane.line.length === 0 && lane.held < limits.perWebhook;

  function turnOver(webhookId: string, lane: Lane<T>): void {
    lanes.delete(webhookId);
    lanes.set(webhookId, lane);
  }
  function forgetIdle(webhookId: string, lane: Lane<T>): void {
    if (lane.held === 0 && lane.line.length === 0 && !lane.parked) lanes.delete(webhookId);
  }

  return {
    offer(webhookId, bytes, item, now, claimed = false) {
      const lane = laneOf(webhookId);
      lanes.set(webhookId, lane);
      if (lane.parked && !claimed) return 'park';
      if (lane.held < limits.perWebhook && lane.line.length === 0 && fits(bytes)) {
        take(lane, bytes);
        return 'start';
      }
      const room = waiting < limits.lines && waitingBytes + bytes <= limits.bytes;
      if (lane.line.length < limits.line && room) {
        lane.line.push({ item, bytes, since: now });
        waiting += 1;
        waitingBytes += bytes;
        return 'wait';
      }
      forgetIdle(webhookId, lane);
      return 'park';
    },
    room(webhookId) {
      const lane = lanes.get(webhookId);
      if (lane?.parked) return 0;
      return Math.min(limits.line - (lane?.line.length ?? 0), limits.lines - waiting);
    },
    release(webhookId, bytes) {
      const lane = lanes.get(webhookId);
      if (!lane || lane.held === 0) throw new Error(`no slot of ${webhookId} is taken`);
      lane.held -= 1;
      taken -= 1;
      takenBytes -= bytes;
      forgetIdle(webhookId, lane);
    },
    next() {
      if (waiting === 0 || taken >= limits.total) return undefined;
      for (const [webhookId, lane] of lanes) {
        const first = lane.line[0];
        if (!first || lane.held >= limits.perWebhook || !fits(first.bytes)) continue;
        lane.line.shift();
        waiting -= 1;
        waitingBytes -= first.bytes;
        take(lane, first.bytes);
        turnOver(webhookId, lane);
        return first.item;
      }
      return undefined;
    },
    expire(since) {
      const expired: T[] = [];
      if (waiting === 0) return expired;
      for (const [webhookId, lane] of lanes) {
        // Oldest first, so those that wait too long stand at the head.
        const kept = lane.line.findIndex((entry) => entry.since >= since);
        const out = lane.line.splice(0, kept === -1 ? lane.line.length : kept);
        waiting -= out.length;
        for (const { bytes } of out) waitingBytes -= bytes;
        if (out.length > 0) lane.claim = limits.perWebhook;
        expired.push(...out.map((entry) => entry.item));
        forgetIdle(webhookId, lane);
      }
      return expired;
    },
    setParked(webhookId, parked) {
      const lane = laneOf(webhookId);
      if (parked) parkedLanes.add(lane);
      else parkedLanes.delete(lane);
      lane.parked = parked;
      lanes.set(webhookId, lane);
      forgetIdle(webhookId, lane);
    },
    turn() {
      if (parkedLanes.size === 0 || full()) return undefined;
      for (const [webhookId, lane] of lanes) {
        if (!canClaim(lane)) continue;
        turnOver(webhookId, lane);
        const count = Math.max(1, Math.min(lane.claim - lane.held, limits.lines - waiting));
        lane.claim = Math.min(2 * lane.claim, LARGEST_CLAIM * limits.perWebhook);
        return { webhookId, count };
      }
      return undefined;
    },
    get anyTurn() {
      if (full()) return false;
      for (const lane of parkedLanes) if (canClaim(lane)) return true;
      return false;
    },
    get taken() {
      return taken;
    },
    get waiting() {
      return waiting;
    },
  };
}

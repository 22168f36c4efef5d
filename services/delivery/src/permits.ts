export interface PermitLimits {
  /** Concurrent attempts to one webhook. */
  perWebhook: number;
  /** Concurrent attempts in all. */
  total: number;
  /** Bytes of bodies in progress, and of those that wait; a larger one starts when nothing else is in progress. */
  bytes: number;
  /** Deliveries to one webhook that may wait in memory. */
  queued: number;
  /** Deliveries that may wait in memory in all. */
  queuedInAll: number;
}

/** `start`: a permit was taken; `wait`: `next` will return it; `park`: it must wait in the store. */
export type Offer = 'start' | 'wait' | 'park';

/**
 * Permits for the attempts of one process, shared fairly: no webhook exceeds its limit; webhooks with waiting deliveries,
 * in memory or parked in the store, take turns; within a webhook the oldest goes first.
 */
export interface Permits<T> {
  /** @param claimed it was claimed after `turn`, so it does not wait behind the parked ones */
  offer(webhookId: string, bytes: number, item: T, now: number, claimed?: boolean): Offer;
  /** Number of further small deliveries to this webhook that may wait in memory. */
  room(webhookId: string): number;
  /** Releases a permit taken by `offer` or `next`. */
  release(webhookId: string, bytes: number): void;
  /** Takes a permit for the next waiting item that may start. */
  next(): T | undefined;
  /** Removes the items that have waited since before `since`: they must be parked. */
  expire(since: number): T[];
  /** Sets whether deliveries of this webhook are parked in the store. */
  setParked(webhookId: string, parked: boolean): void;
  /**
   * The next webhook whose parked deliveries may be claimed, and how many. The number doubles with each turn, and falls
   * back to the number of permits when deliveries waited in memory for too long.
   */
  turn(): { webhookId: string; count: number } | undefined;
  /** `turn` would return a webhook. */
  readonly hasTurn: boolean;
  readonly taken: number;
  readonly waiting: number;
}

interface Entry<T> {
  item: T;
  bytes: number;
  since: number;
}
interface WebhookQueue<T> {
  held: number;
  entries: Entry<T>[];
  parked: boolean;
  /** Number to claim in its next turn. */
  claim: number;
}

/** Parked deliveries claimed in one turn, in multiples of the permits of a webhook. */
const MAX_CLAIM = 16;

export function createPermits<T>(limits: PermitLimits): Permits<T> {
  // In the order of turns: after its turn a webhook moves to the end.
  const queues = new Map<string, WebhookQueue<T>>();
  let taken = 0;
  let takenBytes = 0;
  let waiting = 0;
  let waitingBytes = 0;
  const parkedQueues = new Set<WebhookQueue<T>>();

  const fits = (bytes: number) => taken === 0 || (taken < limits.total && takenBytes + bytes <= limits.bytes);

  function take(queue: WebhookQueue<T>, bytes: number): void {
    queue.held += 1;
    taken += 1;
    takenBytes += bytes;
  }
  const queueOf = (webhookId: string): WebhookQueue<T> =>
    queues.get(webhookId) ?? { held: 0, entries: [], parked: false, claim: limits.perWebhook };
  const full = () => taken > 0 && (taken >= limits.total || takenBytes >= limits.bytes);
  const canClaim = (queue: WebhookQueue<T>) =>
    queue.parked && queue.entries.length === 0 && queue.held < limits.perWebhook;

  function turnOver(webhookId: string, queue: WebhookQueue<T>): void {
    queues.delete(webhookId);
    queues.set(webhookId, queue);
  }
  function forgetIdle(webhookId: string, queue: WebhookQueue<T>): void {
    if (queue.held === 0 && queue.entries.length === 0 && !queue.parked) queues.delete(webhookId);
  }

  return {
    offer(webhookId, bytes, item, now, claimed = false) {
      const queue = queueOf(webhookId);
      queues.set(webhookId, queue);
      if (queue.parked && !claimed) return 'park';
      if (queue.held < limits.perWebhook && queue.entries.length === 0 && fits(bytes)) {
        take(queue, bytes);
        return 'start';
      }
      const room = waiting < limits.queuedInAll && waitingBytes + bytes <= limits.bytes;
      if (queue.entries.length < limits.queued && room) {
        queue.entries.push({ item, bytes, since: now });
        waiting += 1;
        waitingBytes += bytes;
        return 'wait';
      }
      forgetIdle(webhookId, queue);
      return 'park';
    },
    room(webhookId) {
      const queue = queues.get(webhookId);
      if (queue?.parked) return 0;
      return Math.min(limits.queued - (queue?.entries.length ?? 0), limits.queuedInAll - waiting);
    },
    release(webhookId, bytes) {
      const queue = queues.get(webhookId);
      if (!queue || queue.held === 0) throw new Error(`${webhookId} holds no permit`);
      queue.held -= 1;
      taken -= 1;
      takenBytes -= bytes;
      forgetIdle(webhookId, queue);
    },
    next() {
      if (waiting === 0 || taken >= limits.total) return undefined;
      for (const [webhookId, queue] of queues) {
        const first = queue.entries[0];
        if (!first || queue.held >= limits.perWebhook || !fits(first.bytes)) continue;
        queue.entries.shift();
        waiting -= 1;
        waitingBytes -= first.bytes;
        take(queue, first.bytes);
        turnOver(webhookId, queue);
        return first.item;
      }
      return undefined;
    },
    expire(since) {
      const expired: T[] = [];
      if (waiting === 0) return expired;
      for (const [webhookId, queue] of queues) {
        // Oldest first.
        const kept = queue.entries.findIndex((entry) => entry.since >= since);
        const out = queue.entries.splice(0, kept === -1 ? queue.entries.length : kept);
        waiting -= out.length;
        for (const { bytes } of out) waitingBytes -= bytes;
        if (out.length > 0) queue.claim = limits.perWebhook;
        expired.push(...out.map((entry) => entry.item));
        forgetIdle(webhookId, queue);
      }
      return expired;
    },
    setParked(webhookId, parked) {
      const queue = queueOf(webhookId);
      if (parked) parkedQueues.add(queue);
      else parkedQueues.delete(queue);
      queue.parked = parked;
      queues.set(webhookId, queue);
      forgetIdle(webhookId, queue);
    },
    turn() {
      if (parkedQueues.size === 0 || full()) return undefined;
      for (const [webhookId, queue] of queues) {
        if (!canClaim(queue)) continue;
        turnOver(webhookId, queue);
        const count = Math.max(1, Math.min(queue.claim - queue.held, limits.queuedInAll - waiting));
        queue.claim = Math.min(2 * queue.claim, MAX_CLAIM * limits.perWebhook);
        return { webhookId, count };
      }
      return undefined;
    },
    get hasTurn() {
      if (full()) return false;
      for (const queue of parkedQueues) if (canClaim(queue)) return true;
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

import { createLinkedList, type LinkedList } from '@wellspring/core/linked-list';
import { isWorkflowId } from '@wellspring/store/collections/emitters';
import type { FirstAttemptTimeout } from './first-attempt-timeout.ts';
import { type Health, isPausedAt, pausedUntil } from './pause.ts';
import { createSlowAttempts } from './slow-attempts.ts';

export interface PermitLimits {
  /** Concurrent attempts to a webhook that answers. */
  perWebhook: number;
  /** Concurrent attempts in all; half of them are for webhooks that answer within a second. */
  total: number;
  /** Attempts in progress of one owner to webhooks that do not answer. */
  probationPerOwner: number;
}

/** State of one webhook, or of a workflow that makes requests, in this process. */
export interface Receiver {
  readonly id: string;
  readonly owner_id: string;
  /** Failed attempts since the last success; null: never tried. */
  failures: number | null;
  /** Epoch ms of the attempt that set `failures`. */
  tried_at: number;
  /** Epoch ms of the success that this process stored last; 0: none. */
  success_stored_at: number;
  /** Its rows are being claimed. */
  claiming: boolean;
  /** Number of permits. */
  held: number;
  /** Attempts that wait for a permit; they are called with it, or with undefined if they get none. */
  readonly waiters: LinkedList<(permit: Permit | undefined) => void>;
}

/** The right to make one attempt. */
export interface Permit {
  readonly receiver: Receiver;
  /** The attempt takes long: it goes on probation, and `abort` ends it when others need its permit. */
  setSlow(abort: () => void): void;
  release(): void;
}

/**
 * Permits for the attempts of one process. A webhook that answers has several. A webhook that is new or failed has one;
 * after a failure it also pauses, longer each time (circuit breaker: open, then half-open).
 *
 * Attempts to such webhooks are *on probation*, and so is each attempt that takes longer than a second. They share half of
 * the permits; those to webhooks that do not answer have a limit for each owner, too. If the half runs out, an attempt
 * that takes longer than a second is ended: of the owner that has the most of them, the oldest one to a webhook that does
 * not answer, or else to one that does. At the limit of an owner, only one to a webhook that does not answer is ended.
 * Requests of workflows have a limit of the same size for each owner; they are ended as attempts to webhooks that do.
 * Receivers that hang therefore never take the permits of receivers that answer, be they slow, nor those of other owners.
 *
 * When claims find no permit, a part of all permits is kept for them: first attempts that wait would take each one that
 * becomes free.
 */
export interface Permits {
  /** The receiver of a webhook, or of a workflow if there is no health. */
  receiver(id: string, ownerId: string, health?: Health): Receiver;
  /** Resolves with a permit; undefined if the delivery has to become a row. */
  acquire(receiver: Receiver, timeout: FirstAttemptTimeout): Promise<Permit | undefined>;
  /** Records the outcome of an attempt. */
  record(receiver: Receiver, health: Health): void;
  /** Due rows of the receiver may wait in the store. */
  setDueRows(receiver: Receiver, hasDueRows: boolean): void;
  /** All permits that are free for the next receiver with due rows. */
  nextClaim(): Permit[] | undefined;
  /** Epoch ms at which the next pause of a receiver with rows ends. */
  readonly nextPauseEnd: number;
  /** Ends all waits; later requests get a free permit or none. */
  close(): void;
  readonly taken: number;
  readonly onProbation: number;
}

/** Receivers that are remembered, besides those in use. */
const MAX_RECEIVERS = 20_000;
/** Receivers that are checked when there is a further one: thousands may be in use. */
const MAX_IDLE_CHECKS = 64;
/** Part of all permits that is kept for claims that wait. */
const CLAIMS_PART = 1 / 16;
/** Blocked receivers that are checked when a permit is released. */
const MAX_BLOCKED_CHECKS = 64;

/** @param wake called when rows of a receiver may be claimed */
export function createPermits(limits: PermitLimits, now: () => number, wake: () => void): Permits {
  const receivers = new Map<string, Receiver>();
  /** Due rows of them may wait in the store; in the order of turns. */
  const withDueRows = new Set<Receiver>();
  /** With waiters that are held back by a limit of all receivers, in the order of turns. */
  const blocked = new Set<Receiver>();
  const slow = createSlowAttempts();
  /** By owner: attempts to receivers that do not answer; apart from them, requests of workflows. */
  const probationOf = new Map<string, number>();
  let taken = 0;
  let onProbation = 0;
  let closed = false;
  /** The last search for a claim met receivers that wait for a limit of all: any released permit may be for them. */
  let areClaimsBlocked = false;
  /** Kept for claims. */
  let reserved = 0;

  const isWorkflow = ({ id }: Receiver) => isWorkflowId(id);
  const probationKey = (receiver: Receiver) =>
    isWorkflow(receiver) ? `requests ${receiver.owner_id}` : receiver.owner_id;
  const limitOf = (receiver: Receiver) =>
    receiver.failures === 0 || isWorkflow(receiver) ? limits.perWebhook : 1;
  const isPaused = (receiver: Receiver) => isPausedAt(receiver, now());

  /** The limit that the next attempt of a receiver would exceed. @param total of permits; default: for first attempts */
  function exhaustedLimit(receiver: Receiver, total = limits.total - reserved) {
    if (receiver.held >= limitOf(receiver) || isPaused(receiver)) return 'receiver';
    if (receiver.failures !== 0) {
      if (onProbation >= limits.total / 2) return 'probation';
      if ((probationOf.get(probationKey(receiver)) ?? 0) >= limits.probationPerOwner) return 'probation';
    }
    return taken >= total ? 'total' : undefined;
  }

  /** For owners that wait: one of each, or if half of all permits are used, one of the owner that has the most. */
  function endSlowAttempts(waiting: Iterable<string>): void {
    if (onProbation >= limits.total / 2) slow.endOfMost();
    else for (const owner of waiting) slow.endOf(owner);
  }

  function countOfOwner(receiver: Receiver, change: 1 | -1): void {
    const key = probationKey(receiver);
    const count = (probationOf.get(key) ?? 0) + change;
    if (count > 0) probationOf.set(key, count);
    else probationOf.delete(key);
  }

  function grant(receiver: Receiver): Permit {
    const isToAnswering = receiver.failures === 0;
    // A request of a workflow is not repeated.
    const isSpared = isToAnswering || isWorkflow(receiver);
    let isOnProbation = !isToAnswering;
    let released = false;
    let removeSlow: (() => void) | undefined;
    receiver.held += 1;
    taken += 1;
    if (isOnProbation) onProbation += 1;
    if (!isToAnswering) countOfOwner(receiver, 1);
    return {
      receiver,
      setSlow(abort) {
        if (released || removeSlow) return;
        removeSlow = slow.add({ owner: receiver.owner_id, isSpared, end: abort });
        // It may be ended for those that wait.
        if (areClaimsBlocked) wake();
        if (isOnProbation) return;
        isOnProbation = true;
        onProbation += 1;
        if (onProbation > limits.total / 2) endSlowAttempts([]);
      },
      release() {
        if (released) return;
        released = true;
        removeSlow?.();
        receiver.held -= 1;
        taken -= 1;
        if (isOnProbation) onProbation -= 1;
        if (!isToAnswering) countOfOwner(receiver, -1);
        serve(receiver);
      },
    };
  }

  /** Grants permits to waiters of blocked receivers. */
  function serveBlocked(): void {
    let checks = MAX_BLOCKED_CHECKS;
    for (const one of blocked) {
      if (checks-- === 0) break;
      blocked.delete(one);
      let found = one.waiters.size === 0 ? 'receiver' : exhaustedLimit(one);
      while (found === undefined) {
        one.waiters.first!(grant(one));
        found = one.waiters.size === 0 ? 'receiver' : exhaustedLimit(one);
      }
      if (found !== 'receiver') blocked.add(one);
      if (found === 'total') break;
    }
  }

  /** The same, and to those of this receiver, to which a permit may be due. */
  function serve(receiver: Receiver): void {
    if (receiver.waiters.size > 0) blocked.add(receiver);
    serveBlocked();
    if (areClaimsBlocked || withDueRows.has(receiver)) wake();
  }

  /** Checks a few of the oldest ones; those that are in use become the newest. */
  function forgetIdle(): void {
    let checks = MAX_IDLE_CHECKS;
    for (const [id, receiver] of receivers) {
      if (receivers.size <= MAX_RECEIVERS || checks-- === 0) return;
      const { held, waiters } = receiver;
      receivers.delete(id);
      if (held > 0 || withDueRows.has(receiver) || waiters.size > 0) receivers.set(id, receiver);
    }
  }

  function dismiss({ waiters }: Receiver): void {
    for (const settle of waiters) settle(undefined);
  }

  function update(receiver: Receiver, { failures, tried_at }: Health): void {
    Object.assign(receiver, { failures, tried_at });
    // They would only wait for the end of the pause.
    if (isPaused(receiver)) dismiss(receiver);
    else if (withDueRows.has(receiver)) wake();
  }

  return {
    receiver(id, owner_id, health) {
      let receiver = receivers.get(id);
      if (!receiver) {
        receiver = {
          id,
          owner_id,
          failures: null,
          tried_at: 0,
          success_stored_at: 0,
          claiming: false,
          held: 0,
          waiters: createLinkedList(),
        };
        receivers.set(id, receiver);
        if (receivers.size > MAX_RECEIVERS) forgetIdle();
      }
      if (health && health.tried_at > receiver.tried_at) update(receiver, health);
      return receiver;
    },
    acquire(receiver, timeout) {
      // The oldest deliveries go first.
      if (closed || withDueRows.has(receiver) || isPaused(receiver)) return Promise.resolve(undefined);
      const found = receiver.waiters.size > 0 ? 'receiver' : exhaustedLimit(receiver);
      if (found === undefined) return Promise.resolve(grant(receiver));
      return new Promise((resolve) => {
        const settle = (permit?: Permit) => {
          remove();
          stop();
          resolve(permit);
        };
        const stop = timeout(settle);
        const remove = receiver.waiters.append(settle);
        if (found !== 'receiver') blocked.add(receiver);
        if (found === 'probation') endSlowAttempts([receiver.owner_id]);
      });
    },
    record(receiver, health) {
      update(receiver, health);
      serve(receiver);
    },
    setDueRows(receiver, hasDueRows) {
      if (hasDueRows) withDueRows.add(receiver);
      else withDueRows.delete(receiver);
    },
    nextClaim() {
      const waiting = new Set<string>();
      areClaimsBlocked = false;
      let isFull = false;
      for (const receiver of withDueRows) {
        if (receiver.claiming) continue;
        const found = exhaustedLimit(receiver, limits.total);
        if (found === 'total') isFull = true;
        if (found === 'probation') waiting.add(receiver.owner_id);
        if (found === 'probation' || found === 'total') areClaimsBlocked = true;
        if (found !== undefined) continue;
        withDueRows.delete(receiver);
        withDueRows.add(receiver);
        const permits = [];
        while (exhaustedLimit(receiver, limits.total) === undefined) permits.push(grant(receiver));
        return permits;
      }
      const wereKept = reserved > 0;
      reserved = isFull ? limits.total * CLAIMS_PART : 0;
      if (wereKept && !isFull) serveBlocked();
      if (waiting.size > 0) endSlowAttempts(waiting);
      return undefined;
    },
    get nextPauseEnd() {
      let next = Number.POSITIVE_INFINITY;
      for (const receiver of withDueRows)
        if (isPaused(receiver)) next = Math.min(next, pausedUntil(receiver));
      return next;
    },
    close() {
      closed = true;
      for (const receiver of receivers.values()) dismiss(receiver);
    },
    get taken() {
      return taken;
    },
    get onProbation() {
      return onProbation;
    },
  };
}

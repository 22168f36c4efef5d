import type { WebhookRow } from '@wellspring/store/collections/webhooks';

export interface PermitLimits {
  /** Concurrent attempts to a webhook that answers. */
  perWebhook: number;
  /** Concurrent attempts in all; half of them are for webhooks that answer within a second. */
  total: number;
  /** Attempts on trial in progress for one owner. */
  trialsPerOwner: number;
}

/** Outcome of the latest attempts, as in the row of the webhook. */
export type Health = Pick<WebhookRow, 'failures' | 'tried_at'>;

/** The attempts of this process to one webhook, or for one workflow. */
export interface Line {
  readonly id: string;
  readonly owner_id: string;
  /** Failed attempts since the last success; null: never tried. */
  failures: number | null;
  /** Epoch ms of the attempt that set `failures`. */
  tried_at: number;
  /** Due rows of it may wait in the store. */
  hasRows: boolean;
  /** Its rows are being claimed. */
  claiming: boolean;
  held: number;
  readonly waiters: Waiter[];
}

interface Waiter {
  grant(permit: Permit | undefined): void;
}

/** The right to make one attempt. */
export interface Permit {
  readonly line: Line;
  /** The attempt takes long: it goes on trial, and `abort` ends it if the slots on trial run out. */
  setSlow(abort: () => void): void;
  release(): void;
}

/**
 * Permits for the attempts of one process, shared by time: a webhook that answers has several; one that failed, or was
 * never tried, has one, and after a failure a pause that grows (breaker: open until the pause is over, then half-open).
 * Attempts of such webhooks, and all that take longer than a second, are *on trial*: they share half of the permits, a
 * part of it for each owner. When more are needed, the attempt on trial that has taken longest is ended. So receivers
 * that hang never keep the permits of those that answer.
 */
export interface Permits {
  /** The line of a webhook, or of a workflow if there is no health. */
  line(id: string, ownerId: string, health?: Health): Line;
  /** Resolves with a permit; undefined: the delivery has to become a row. @param patience see Patience */
  wait(line: Line, patience: (tooLong: () => void) => () => void): Promise<Permit | undefined>;
  /** Records the outcome of an attempt. */
  record(line: Line, health: Health): void;
  setRows(line: Line, hasRows: boolean): void;
  /** Permits for rows of the line whose turn it is. */
  turn(): Permit[] | undefined;
  /** Epoch ms at which the next pause of a line with rows ends. */
  readonly nextPauseEnd: number;
  /** Ends all waiting; from now on nobody waits. */
  close(): void;
  readonly taken: number;
  readonly onTrial: number;
}

const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 60_000;
/** Lines that are remembered. */
const MAX_LINES = 20_000;
/** Blocked lines that are looked at when a permit is released. */
const MAX_LOOKED_AT = 64;

/** Epoch ms until which the webhook is not tried. */
export const pausedUntil = ({ failures, tried_at }: Health): number =>
  failures ? tried_at + Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 1)) : 0;

/** @param wake called when rows of a line may be claimed */
export function createPermits(limits: PermitLimits, now: () => number, wake: () => void): Permits {
  const lines = new Map<string, Line>();
  /** With rows, in the order of turns. */
  const withRows = new Set<Line>();
  /** With waiters that a limit other than their own holds back, in the order of turns. */
  const blocked = new Set<Line>();
  /** Attempts that may be ended, oldest first. */
  const slow = new Map<object, () => void>();
  const trialsOf = new Map<string, number>();
  let taken = 0;
  let onTrial = 0;
  let closed = false;

  const isWorkflow = ({ id }: Line) => id.startsWith('p_');
  const limitOf = (line: Line) => (line.failures === 0 || isWorkflow(line) ? limits.perWebhook : 1);
  const isPaused = (line: Line) => line.failures !== 0 && pausedUntil(line) > now();

  /** The limit that holds back the next attempt of a line. */
  function obstacle(line: Line): 'line' | 'trials' | 'total' | undefined {
    if (line.held >= limitOf(line) || isPaused(line)) return 'line';
    if (line.failures !== 0) {
      if (onTrial >= limits.total / 2) return 'trials';
      if ((trialsOf.get(line.owner_id) ?? 0) >= limits.trialsPerOwner) return 'trials';
    }
    return taken >= limits.total ? 'total' : undefined;
  }

  function endOldest(): void {
    const [oldest] = slow;
    if (!oldest) return;
    slow.delete(oldest[0]);
    oldest[1]();
  }

  function setTrial(line: Line, change: 1 | -1): void {
    onTrial += change;
    const count = (trialsOf.get(line.owner_id) ?? 0) + change;
    if (count > 0) trialsOf.set(line.owner_id, count);
    else trialsOf.delete(line.owner_id);
  }

  function grant(line: Line): Permit {
    let trial = line.failures !== 0;
    let released = false;
    const key = {};
    line.held += 1;
    taken += 1;
    if (trial) setTrial(line, 1);
    return {
      line,
      setSlow(abort) {
        if (released) return;
        slow.set(key, abort);
        if (trial) return;
        trial = true;
        setTrial(line, 1);
        if (onTrial > limits.total / 2) endOldest();
      },
      release() {
        if (released) return;
        released = true;
        slow.delete(key);
        line.held -= 1;
        taken -= 1;
        if (trial) setTrial(line, -1);
        serve(line);
      },
    };
  }

  /** Grants permits to waiters of this line and of blocked ones. */
  function serve(line: Line): void {
    if (line.waiters.length > 0) blocked.add(line);
    let looks = MAX_LOOKED_AT;
    for (const one of blocked) {
      if (looks-- === 0) break;
      blocked.delete(one);
      let found = one.waiters.length === 0 ? 'line' : obstacle(one);
      while (found === undefined) {
        one.waiters.shift()!.grant(grant(one));
        found = one.waiters.length === 0 ? 'line' : obstacle(one);
      }
      if (found !== 'line') blocked.add(one);
      if (found === 'total') break;
    }
    if (withRows.size > 0) wake();
  }

  function forgetIdle(): void {
    for (const [id, { held, hasRows, waiters }] of lines) {
      if (lines.size <= MAX_LINES) return;
      if (held === 0 && !hasRows && waiters.length === 0) lines.delete(id);
    }
  }

  function dismiss({ waiters }: Line): void {
    for (const { grant: end } of waiters.splice(0)) end(undefined);
  }

  function learn(line: Line, { failures, tried_at }: Health): void {
    Object.assign(line, { failures, tried_at });
    // They would only wait for the end of the pause.
    if (isPaused(line)) dismiss(line);
  }

  return {
    line(id, owner_id, health) {
      let line = lines.get(id);
      if (!line) {
        line = {
          ...{ id, owner_id, failures: null, tried_at: 0, hasRows: false, claiming: false, held: 0 },
          waiters: [],
        };
        lines.set(id, line);
        if (lines.size > MAX_LINES) forgetIdle();
      }
      if (health && health.tried_at > line.tried_at) learn(line, health);
      return line;
    },
    wait(line, patience) {
      // The oldest deliveries go first.
      if (closed || line.hasRows || isPaused(line)) return Promise.resolve(undefined);
      const found = line.waiters.length > 0 ? 'line' : obstacle(line);
      if (found === undefined) return Promise.resolve(grant(line));
      return new Promise((resolve) => {
        const waiter: Waiter = {
          grant(given) {
            stop();
            resolve(given);
          },
        };
        const stop = patience(() => {
          line.waiters.splice(line.waiters.indexOf(waiter), 1);
          resolve(undefined);
        });
        line.waiters.push(waiter);
        if (found !== 'line') blocked.add(line);
        if (found === 'trials' && onTrial >= limits.total / 2) endOldest();
      });
    },
    record(line, health) {
      learn(line, health);
      serve(line);
    },
    setRows(line, hasRows) {
      line.hasRows = hasRows;
      if (hasRows) withRows.add(line);
      else withRows.delete(line);
    },
    turn() {
      let lacksTrials = false;
      for (const line of withRows) {
        if (line.claiming) continue;
        const found = obstacle(line);
        lacksTrials ||= found === 'trials' && onTrial >= limits.total / 2;
        if (found !== undefined) continue;
        withRows.delete(line);
        withRows.add(line);
        const permits = [];
        while (obstacle(line) === undefined) permits.push(grant(line));
        return permits;
      }
      if (lacksTrials) endOldest();
      return undefined;
    },
    get nextPauseEnd() {
      let next = Number.POSITIVE_INFINITY;
      for (const line of withRows) if (isPaused(line)) next = Math.min(next, pausedUntil(line));
      return next;
    },
    close() {
      closed = true;
      for (const line of lines.values()) dismiss(line);
    },
    get taken() {
      return taken;
    },
    get onTrial() {
      return onTrial;
    },
  };
}

import { newSecret } from '@wellspring/core/ids';
import type { Log } from '@wellspring/core/log';
import type { Collection } from '@wellspring/store/port';
import type { QueueName } from '../port.ts';
import type { SessionRow } from './collections.ts';

/**
 * Which processes live, without synchronized clocks. Each process has a row that it renews. Another one that has seen the
 * row unchanged for the whole lease, by its own monotonic clock, removes it on the condition that it is still unchanged,
 * which frees the leases of the session, and tells that process. The process itself counts from the moment at which it
 * *sent* its last successful renewal, so it starts nothing any more before others act on the end of its session.
 *
 * During an outage of the store nobody can end a session: one that is not told keeps what it has for three leases, so that
 * its work in progress is not repeated. If another process took a partition meanwhile, the epoch refuses late commits.
 */
export interface Session {
  /** undefined: none at the moment. */
  readonly id: string | undefined;
  /** Renewed within two thirds of the lease: work may be started. */
  readonly isValid: boolean;
  /** Begins or renews the session. @returns the living sessions. @throws Unavailable */
  renew(queues: readonly QueueName[]): Promise<SessionRow[]>;
  /** performance.now() at which the first of the sessions ends unless it is renewed. */
  readonly nextExpiry: number;
  /** Discards what was observed of other sessions: during an outage of the store no process can renew its own. */
  forget(): void;
  end(): Promise<void>;
}

/** Makes other processes look at once. When it is not received, they look when they renew. */
export interface WakeUp {
  send(): void;
  onReceived(listener: () => void): void;
  /** Tells a process that its session was ended. When it is not received, the process keeps its jobs for longer. */
  sendEnded(member: string): void;
  /** For this process. */
  onEnded(listener: () => void): void;
}

export interface SessionOptions {
  rows: Collection<SessionRow>;
  log: Log;
  member: string;
  leaseMs: number;
  wakeUp: Pick<WakeUp, 'sendEnded' | 'onEnded'>;
  /** Nothing may be done in the name of the session any more. */
  lost(): void;
}

/** An unplanned failover of MongoDB takes about two leases. */
const MAX_UNRENEWED_LEASES = 3;

export function createSession({ rows, log, member, leaseMs, wakeUp, lost }: SessionOptions): Session {
  let own: { id: string; beat: number; renewedAt: number } | undefined;
  let expiry: NodeJS.Timeout | undefined;
  /** Ids of own sessions that may still have a row. */
  const former = new Set<string>();
  let seen = new Map<string, { beat: number; since: number }>();

  function drop(reason: string): void {
    if (!own) return;
    log.warn({ reason }, 'ownership.lost');
    former.add(own.id);
    own = undefined;
    clearTimeout(expiry);
    lost();
  }

  async function renewOwn(queues: readonly QueueName[]): Promise<void> {
    const sentAt = performance.now();
    const mine = own ?? { id: `${member}/${newSecret()}`, beat: 0, renewedAt: sentAt };
    mine.beat += 1;
    const fields = { beat: mine.beat, queues: queues.join() };
    if (own) {
      const isAlive = await rows.patch(mine.id, fields);
      if (own !== mine) return;
      if (!isAlive) return drop('Another process ended it.');
    } else {
      // If this fails, the row may exist all the same.
      former.add(mine.id);
      await rows.insert({ id: mine.id, ...fields });
      former.delete(mine.id);
      own = mine;
    }
    mine.renewedAt = sentAt;
    clearTimeout(expiry);
    const left = Math.max(0, sentAt + MAX_UNRENEWED_LEASES * leaseMs - performance.now());
    expiry = setTimeout(() => drop('It could not be renewed in time.'), left).unref();
  }

  /** Ends sessions that were not renewed for the whole lease. @returns the others */
  async function living(): Promise<SessionRow[]> {
    const found = await rows.list();
    const now = performance.now();
    const alive: SessionRow[] = [];
    const before = seen;
    seen = new Map();
    for (const row of found) {
      const { id, beat } = row;
      if (former.has(id)) continue;
      const last = before.get(id);
      const since = last?.beat === beat ? last.since : now;
      if (now - since < leaseMs || id === own?.id) {
        seen.set(id, { beat, since });
        alive.push(row);
      } else if ((await rows.removeWhere({ id, beat })) === 1) {
        const other = id.split('/')[0]!;
        log.warn({ member: other }, 'ownership.member_gone');
        wakeUp.sendEnded(other);
      }
    }
    return alive;
  }

  async function removeFormer(): Promise<void> {
    if (former.size === 0) return;
    const ids = [...former];
    await rows.removeWhere({ id: { in: ids } });
    for (const id of ids) former.delete(id);
  }

  const isValid = () => own !== undefined && performance.now() - own.renewedAt < (leaseMs * 2) / 3;
  // One that was renewed since is a later session.
  wakeUp.onEnded(() => isValid() || drop('Another process ended it.'));

  return {
    get id() {
      return own?.id;
    },
    get isValid() {
      return isValid();
    },
    get nextExpiry() {
      return Math.min(...seen.values().map(({ since }) => since)) + leaseMs;
    },
    async renew(queues) {
      await removeFormer();
      await renewOwn(queues);
      return living();
    },
    forget: () => seen.clear(),
    async end() {
      clearTimeout(expiry);
      if (own) former.add(own.id);
      own = undefined;
      await removeFormer();
    },
  };
}

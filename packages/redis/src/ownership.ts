import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { memberFor } from '@wellspring/core/rendezvous';
import type { Redis } from './client.ts';

/**
 * Which process has which partition of a group. Processes announce themselves, and each takes the partitions that
 * rendezvous hashing gives it, as soon as whoever had one before has let go of it: a partition is held by one process
 * at a time. While Redis is away everybody keeps what it has. This is about work being done in one place; what must
 * never happen twice is kept apart by versions in the store.
 */
export interface Ownership {
  /** Unlike that of every other process. */
  readonly member: string;
  /** Partitions held now. */
  readonly held: ReadonlySet<number>;
  /**
   * Takes part until the signal is aborted, and then lets go of everything. `take` is told of each partition once it
   * is held. `release` has to stop the work on one, and is waited for before another process may take it.
   */
  run(handlers: OwnershipHandlers, signal: AbortSignal): Promise<void>;
  /** Who holds a partition, as far as it is known; undefined: nobody. @throws Error when Redis does not answer */
  holderOf(partition: number): Promise<string | undefined>;
}

export interface OwnershipHandlers {
  take(partition: number): void;
  /** @param urgent is aborted when others have to take it soon, or have it: what is slow is not to be waited for */
  release(partition: number, urgent: AbortSignal): Promise<void>;
}

export interface OwnershipOptions {
  redis: Redis;
  clock: Clock;
  log: Log;
  /** A name for what is owned, e.g. that of a queue. */
  group: string;
  partitions: number;
  member: string;
  /** For tests. */
  heartbeatMs?: number;
}

const HEARTBEAT_MS = 500;
/** A process that was not heard of for so many heartbeats is gone. */
const MISSED = 6;
/** New partitions are taken only after the members were the same for so many heartbeats. */
const STEADY = 2;

/**
 * KEYS: members. ARGV: member, time to live in ms, then the partitions that it wants to hold.
 * Gives the members and, of the partitions wanted, those that it holds now.
 */
const BEAT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('PEXPIRE', KEYS[1], ARGV[2] * 2)
local held = {}
for i = 3, #ARGV do
  local key = KEYS[1] .. ':' .. ARGV[i]
  local holder = redis.call('GET', key)
  if not holder or holder == ARGV[1] then
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
    held[#held + 1] = ARGV[i]
  end
end
return { redis.call('ZRANGE', KEYS[1], 0, -1), held }`;

/** KEYS: members. ARGV: member, then partitions that it holds no more; with \`leave\` it is no member any more either. */
const RELEASE = `
if ARGV[2] == 'leave' then redis.call('ZREM', KEYS[1], ARGV[1]) end
for i = 3, #ARGV do
  local key = KEYS[1] .. ':' .. ARGV[i]
  if redis.call('GET', key) == ARGV[1] then redis.call('DEL', key) end
end
return 1`;

export function createOwnership({
  redis,
  clock,
  log,
  group,
  partitions,
  member,
  heartbeatMs = HEARTBEAT_MS,
}: OwnershipOptions): Ownership {
  const key = `owners:${group}`;
  const beat = redis.script(BEAT, 1);
  const releaseKeys = redis.script(RELEASE, 1);
  const held = new Set<number>();
  /** Held no more as soon as the work on them has ended. */
  const leaving = new Map<number, { ended: Promise<unknown>; urgent: AbortController }>();
  const all = Array.from({ length: partitions }, (_, partition) => partition);
  let members = '';
  let steady = 0;

  function letGo(partition: number, { release }: OwnershipHandlers, isUrgent: boolean): void {
    const urgent = leaving.get(partition)?.urgent ?? new AbortController();
    if (isUrgent) urgent.abort();
    if (leaving.has(partition)) return;
    const ended = release(partition, urgent.signal)
      .catch((error: unknown) =>
        log.error({ group, partition, error: String(error) }, 'ownership.release_failed'),
      )
      .then(() => {
        held.delete(partition);
        return releaseKeys(key, member, 'stay', partition);
      })
      // Should Redis be away: it forgets the holder by itself.
      .catch(() => {})
      .finally(() => leaving.delete(partition));
    leaving.set(partition, { ended, urgent });
  }

  async function heartbeat(handlers: OwnershipHandlers): Promise<void> {
    const known = members === '' ? [] : members.split(' ');
    const mine = new Set(all.filter((partition) => memberFor(partition, known) === member));
    // What is being let go of is still held, and kept from the others, until the work on it has ended.
    const wanted = [...held];
    const free = (partition: number) => !held.has(partition) && !leaving.has(partition);
    if (steady >= STEADY) wanted.push(...[...mine].filter(free));
    const [names, granted] = (await beat(key, member, heartbeatMs * MISSED, ...wanted)) as [
      string[],
      string[],
    ];
    const seen = names.sort().join(' ');
    steady = seen === members ? steady + 1 : 0;
    members = seen;
    const got = new Set(granted.map(Number));
    for (const partition of got) {
      if (!free(partition)) continue;
      held.add(partition);
      handlers.take(partition);
    }
    for (const partition of held) {
      // Somebody else has it: this process was not heard of for too long.
      const lost = !got.has(partition);
      const moves = steady > 0 && memberFor(partition, names) !== member;
      if (lost || moves) letGo(partition, handlers, lost);
    }
  }

  return {
    member,
    held,
    async run(handlers, signal) {
      [members, steady] = ['', 0];
      let failing = false;
      while (!signal.aborted) {
        try {
          await heartbeat(handlers);
          failing = false;
        } catch (error) {
          if (!failing) log.warn({ group, error: String(error) }, 'ownership.unknown');
          failing = true;
          // What was seen before the outage may be long past.
          steady = 0;
        }
        await clock.sleep(heartbeatMs, signal);
      }
      const ending = [...held];
      for (const partition of ending) letGo(partition, handlers, true);
      await Promise.all([...leaving.values()].map(({ ended }) => ended));
      await releaseKeys(key, member, 'leave').catch(() => {});
    },
    async holderOf(partition) {
      return (await redis.commands.get(`${key}:${partition}`)) ?? undefined;
    },
  };
}

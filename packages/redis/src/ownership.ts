import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { shareOf } from '@wellspring/core/partitions';
import type { Redis } from './client.ts';

/**
 * Assigns the partitions of a group to processes. Processes register by heartbeats and own equal shares: a process with
 * a surplus releases partitions when their running work has ended, one with a deficit acquires free ones. Only the share
 * of a joining or leaving process moves, and a partition has one owner at a time. While Redis is down, processes keep
 * their partitions. Ownership gives order and warm caches; versions in the store prevent double commits.
 */
export interface Ownership {
  /** Unique name of the process. */
  readonly member: string;
  /** Partitions of this process. */
  readonly owned: ReadonlySet<number>;
  /**
   * Takes part until the signal is aborted, then releases everything. `take` is called for each acquired partition.
   * `release` must stop the work on one; no other process acquires it before it resolves.
   */
  run(handlers: OwnershipHandlers, signal: AbortSignal): Promise<void>;
  /** The owner of a partition; undefined: none. @throws Error when Redis does not answer */
  ownerOf(partition: number): Promise<string | undefined>;
}

export interface OwnershipHandlers {
  take(partition: number): void;
  /** @param urgent aborted when another process needs the partition soon or owns it: do not wait for slow work */
  release(partition: number, urgent: AbortSignal): Promise<void>;
}

export interface OwnershipOptions {
  redis: Redis;
  clock: Clock;
  log: Log;
  /** Name of the group, e.g. of a queue. */
  group: string;
  partitions: number;
  member: string;
  /** For tests. */
  heartbeatMs?: number;
}

const HEARTBEAT_INTERVAL_MS = 500;
/** After this many missed heartbeats a process is gone. */
const MAX_MISSED_HEARTBEATS = 6;
/** Partitions are acquired after the members were stable for this many heartbeats. */
const STABLE_HEARTBEATS = 2;

/**
 * KEYS: members. ARGV: member, time to live in ms, number of partitions it may acquire, number of its partitions, its
 * partitions, all other partitions. Returns the members and the member's partitions. A new server, or one that lost its
 * data, assigns nothing before all owners had time for a heartbeat.
 */
const BEAT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('PEXPIRE', KEYS[1], ARGV[2] * 2)
local held = {}
local room = tonumber(ARGV[3])
local since = redis.call('GET', KEYS[1] .. ':since')
if not since then redis.call('SET', KEYS[1] .. ':since', now) end
if now - (since or now) < tonumber(ARGV[2]) then room = 0 end
local others = 5 + tonumber(ARGV[4])
for i = 5, #ARGV do
  if i >= others and room == 0 then break end
  local key = KEYS[1] .. ':' .. ARGV[i]
  local holder = redis.call('GET', key)
  if not holder or holder == ARGV[1] then
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
    held[#held + 1] = ARGV[i]
    if i >= others then room = room - 1 end
  end
end
return { redis.call('ZRANGE', KEYS[1], 0, -1), held }`;

/** KEYS: members. ARGV: member, `leave` or `stay`, released partitions. */
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
  heartbeatMs = HEARTBEAT_INTERVAL_MS,
}: OwnershipOptions): Ownership {
  const key = `owners:${group}`;
  const beat = redis.script(BEAT, 1);
  const releaseKeys = redis.script(RELEASE, 1);
  const owned = new Set<number>();
  /** Partitions being released. */
  const releasing = new Map<number, { ended: Promise<unknown>; urgent: AbortController }>();
  const all = Array.from({ length: partitions }, (_, partition) => partition);
  let members: readonly string[] = [];
  let stableFor = 0;

  function startRelease(partition: number, { release }: OwnershipHandlers, isUrgent: boolean): void {
    const urgent = releasing.get(partition)?.urgent ?? new AbortController();
    if (isUrgent) urgent.abort();
    if (releasing.has(partition)) return;
    const ended = release(partition, urgent.signal)
      .catch((error: unknown) =>
        log.error({ group, partition, error: String(error) }, 'ownership.release_failed'),
      )
      .then(() => {
        owned.delete(partition);
        return releaseKeys(key, member, 'stay', partition);
      })
      // Otherwise the owner's key expires.
      .catch(() => {})
      .finally(() => releasing.delete(partition));
    releasing.set(partition, { ended, urgent });
  }

  const shareOfThis = (names: readonly string[]) => shareOf(member, names, { group, partitions });
  const staying = () => [...owned].filter((partition) => !releasing.has(partition));

  async function heartbeat(handlers: OwnershipHandlers): Promise<void> {
    const room = stableFor >= STABLE_HEARTBEATS ? Math.max(0, shareOfThis(members) - staying().length) : 0;
    // Partitions being released are still owned until their work has ended.
    const others = all.filter((partition) => !owned.has(partition) && !releasing.has(partition));
    const [names, granted] = (await beat(
      key,
      member,
      heartbeatMs * MAX_MISSED_HEARTBEATS,
      room,
      owned.size,
      ...owned,
      ...others,
    )) as [string[], string[]];
    names.sort();
    stableFor = names.join(' ') === members.join(' ') ? stableFor + 1 : 0;
    members = names;
    const got = new Set(granted.map(Number));
    for (const partition of others) {
      if (!got.has(partition)) continue;
      owned.add(partition);
      handlers.take(partition);
    }
    for (const partition of owned) {
      // Expired, and acquired by another process.
      if (!got.has(partition)) startRelease(partition, handlers, true);
    }
    const surplus = stableFor > 0 ? Math.max(0, staying().length - shareOfThis(names)) : 0;
    // The most recent ones have the coldest caches.
    for (const partition of staying().reverse().slice(0, surplus)) startRelease(partition, handlers, false);
  }

  return {
    member,
    owned,
    async run(handlers, signal) {
      [members, stableFor] = [[], 0];
      let failing = false;
      while (!signal.aborted) {
        try {
          await heartbeat(handlers);
          failing = false;
        } catch (error) {
          if (!failing) log.warn({ group, error: String(error) }, 'ownership.unknown');
          failing = true;
          // Members seen before the outage are outdated.
          stableFor = 0;
        }
        await clock.sleep(heartbeatMs, signal);
      }
      const ending = [...owned];
      for (const partition of ending) startRelease(partition, handlers, true);
      await Promise.all([...releasing.values()].map(({ ended }) => ended));
      await releaseKeys(key, member, 'leave').catch(() => {});
    },
    async ownerOf(partition) {
      return (await redis.commands.get(`${key}:${partition}`)) ?? undefined;
    },
  };
}

import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { shareOf } from '@wellspring/core/partitions';
import type { Redis } from './client.ts';

/**
 * Which process has which partition of a group. Processes announce themselves, and each has its share: who has more
 * lets go of the surplus when what runs of it has ended, who has less takes what nobody has. So all have as many, only
 * the share of whoever joins or leaves moves, and a partition is held by one process at a time. While Redis is away everybody keeps what it has. This is about work being done in one place; what must
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
 * KEYS: members. ARGV: member, time to live in ms, how many partitions it may take, how many it has, those, and then
 * all others. Gives the members and the partitions that it holds now. A server that has forgotten everything, or is new,
 * gives nothing away until all who hold something had the time to say so.
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
  let members: readonly string[] = [];
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

  const share = (names: readonly string[]) => shareOf(member, names, { group, partitions });
  const staying = () => [...held].filter((partition) => !leaving.has(partition));

  async function heartbeat(handlers: OwnershipHandlers): Promise<void> {
    const room = steady >= STEADY ? Math.max(0, share(members) - staying().length) : 0;
    // What is being let go of is still held, and kept from the others, until the work on it has ended.
    const others = all.filter((partition) => !held.has(partition) && !leaving.has(partition));
    const [names, granted] = (await beat(
      key,
      member,
      heartbeatMs * MISSED,
      room,
      held.size,
      ...held,
      ...others,
    )) as [string[], string[]];
    names.sort();
    steady = names.join(' ') === members.join(' ') ? steady + 1 : 0;
    members = names;
    const got = new Set(granted.map(Number));
    for (const partition of others) {
      if (!got.has(partition)) continue;
      held.add(partition);
      handlers.take(partition);
    }
    for (const partition of held) {
      // Somebody else has it: this process was not heard of for too long.
      if (!got.has(partition)) letGo(partition, handlers, true);
    }
    const surplus = steady > 0 ? Math.max(0, staying().length - share(names)) : 0;
    // Those that came last are the least warm.
    for (const partition of staying().reverse().slice(0, surplus)) letGo(partition, handlers, false);
  }

  return {
    member,
    held,
    async run(handlers, signal) {
      [members, steady] = [[], 0];
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

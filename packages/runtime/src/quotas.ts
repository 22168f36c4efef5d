import { errorRecordJob } from '@wellspring/contract/error-record';
import { derivedRunId } from '@wellspring/core/ids';
import { createLru } from '@wellspring/core/lru';
import { quotaExceeded } from '@wellspring/core/problem';
import { findEmitter } from '@wellspring/store/collections/emitters';
import type { SourceRow } from '@wellspring/store/collections/sources';
import { usage, usageDay, users } from '@wellspring/store/collections/users';
import type { Deps } from './deps.ts';

/** Trigger of a run that the quota of its owner stopped. */
export type QuotaStop = 'HTTP' | 'TIMER' | 'EMIT' | 'MANUAL';

/** Daily quotas of users, in runs and processor time. Organizations have none. Days begin at 00:00 UTC. */
export interface Quotas {
  /** The quota that the owner has used up today, as a sentence; undefined if there is none. Up to CACHE_MS old. */
  exceeded(ownerId: string): Promise<string | undefined>;
  /**
   * Puts the stop on `$errors` of the source or workflow, once a day for any number of stops and processes.
   * @param reason see `exceeded`
   */
  record(emitterId: string, stop: QuotaStop, reason: string): Promise<void>;
  /** @throws Problem 429 when a quota is used up; nothing is recorded */
  checkOwner(ownerId: string): Promise<void>;
  /** @throws Problem 429 after `record`, when a quota is used up */
  check(source: Pick<SourceRow, 'id' | 'owner_id'>, stop: QuotaStop): Promise<void>;
}

const CACHE_MS = 1000;
const CACHE_SIZE = 20_000;
const DAY_MS = 86_400_000;

export function createQuotas({ store, queue, clock }: Pick<Deps, 'store' | 'queue' | 'clock'>): Quotas {
  const cache = createLru<{ until: number; reason: Promise<string | undefined> }>(CACHE_SIZE);
  /** Ids of the rows that mark recorded stops. */
  const recorded = createLru<true>(CACHE_SIZE);
  const usageRows = store.collection(usage);

  async function read(ownerId: string): Promise<string | undefined> {
    const user = await store.collection(users).get(ownerId);
    const { daily_invocations_quota: runs = null, daily_compute_time_quota: ms = null } = user ?? {};
    if (runs === null && ms === null) return undefined;
    const used = await usageRows.get(`${ownerId}/${usageDay(clock.now())}`);
    const { invocations = 0, compute_ms = 0 } = used ?? {};
    if (runs !== null && invocations >= runs) return `The daily quota of ${runs} invocations is used up.`;
    if (ms !== null && compute_ms >= ms) return `The daily quota of ${ms} ms of compute time is used up.`;
    return undefined;
  }

  function exceeded(ownerId: string): Promise<string | undefined> {
    if (!ownerId.startsWith('u_')) return Promise.resolve(undefined);
    const now = clock.now();
    const known = cache.get(ownerId);
    // An entry that seems to last longer was made before the clock was set back.
    if (known && now < known.until && known.until - now <= CACHE_MS) return known.reason;
    const reason = read(ownerId);
    reason.catch(() => cache.delete(ownerId));
    cache.set(ownerId, { until: now + CACHE_MS, reason });
    return reason;
  }

  async function record(emitterId: string, stop: QuotaStop, reason: string): Promise<void> {
    const now = clock.now();
    const day = usageDay(now);
    const id = `${emitterId}/${day}`;
    if (recorded.has(id) || (await usageRows.get(id))) {
      recorded.set(id, true);
      return;
    }
    const emitter = await findEmitter(store, emitterId);
    if (!emitter) return;
    const job = errorRecordJob({
      run_id: derivedRunId(`quota/${id}`),
      emitter,
      source_type: stop,
      code: 'QuotaExceeded',
      msg: `${reason} It is renewed at 00:00 UTC; until then runs are refused or skipped.`,
      now,
    });
    // Before the mark: the record is idempotent, so a crash in between only repeats it.
    await queue.publish('runs', { key: emitterId, payload: JSON.stringify(job) });
    await usageRows.increment(id, { invocations: 0 }, { id, day, invocations: 0, compute_ms: 0 });
    recorded.set(id, true);
  }

  const stopped = (reason: string) => quotaExceeded(reason, (DAY_MS - (clock.now() % DAY_MS)) / 1000);

  return {
    exceeded,
    record,
    async checkOwner(ownerId) {
      const reason = await exceeded(ownerId);
      if (reason !== undefined) throw stopped(reason);
    },
    async check(source, stop) {
      const reason = await exceeded(source.owner_id);
      if (reason === undefined) return;
      await record(source.id, stop, reason);
      throw stopped(reason);
    },
  };
}

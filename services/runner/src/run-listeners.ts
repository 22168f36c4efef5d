import type { Deps } from '@wellspring/runtime/deps';
import type { Emitter } from '@wellspring/store/collections/emitters';
import { createRevisionCache, currentRevision } from '@wellspring/store/collections/revisions';
import { subscriptionsTo } from '@wellspring/store/collections/subscription-reach';
import { subscriptions } from '@wellspring/store/collections/subscriptions';

/** Listeners of an emitter, for the message that publishes the effects of a run. */
export interface RunListeners {
  /**
   * A lower bound of the revision `listeners`: fan-out uses no older copy of the listeners. Reread if the run took longer
   * than 50 ms, since it may have created listeners; undefined if that fails: fan-out then reads the revision itself.
   */
  revision: number | undefined;
  /** Channels without a subscription at this revision: their events are stored, and not published. */
  unheard: ReadonlySet<string>;
}

/** An emitter as it was loaded for its run. */
export interface EmitterAtRevision {
  emitter: Emitter;
  /** Revision `listeners`, which also counts the writes to sources and workflows. */
  revision: number;
  /** `performance.now()` before the read. */
  readAt: number;
}

const MAX_REVISION_AGE_MS = 50;
/** Channels of a run whose subscriptions are looked up; events on more channels are all published. */
const MAX_CHANNELS = 16;
/** The channels that every emitter has. */
const USUAL = new Set(['', '$errors', '$logs']);
/** Those of 10,000 emitters in memory. */
const MAX_USUAL = 30_000;
/** Named channels in memory: code makes them up. */
const MAX_NAMED = 10_000;

export function createRunListeners({ store, clock }: Pick<Deps, 'store' | 'clock'>) {
  const rows = store.collection(subscriptions);
  /** By emitter and channel: whether there is a subscription. */
  const usual = createRevisionCache<boolean>(clock, MAX_USUAL);
  const named = createRevisionCache<boolean>(clock, MAX_NAMED);

  /** @param revision read before */
  async function isHeard(emitter: Emitter, channel: string, revision: number): Promise<boolean> {
    const key = `${emitter.id} ${emitter.owner_id} ${channel}`;
    const known = USUAL.has(channel) ? usual : named;
    const answer = known.get(key, revision);
    if (answer !== undefined) return answer;
    const counts = await Promise.all(
      subscriptionsTo(emitter).map((where) => rows.count({ ...where, event_name: channel }, 1)),
    );
    const found = counts.some((count) => count > 0);
    known.set(key, found, revision);
    return found;
  }

  async function read(
    { emitter, revision: former, readAt }: EmitterAtRevision,
    channels: ReadonlySet<string>,
  ): Promise<RunListeners> {
    const isRecent = performance.now() - readAt <= MAX_REVISION_AGE_MS;
    const revision = isRecent ? former : await currentRevision(store, 'listeners');
    const unheard = new Set<string>();
    if (channels.size > MAX_CHANNELS) return { revision, unheard };
    for (const channel of channels) if (!(await isHeard(emitter, channel, revision))) unheard.add(channel);
    return { revision, unheard };
  }

  return {
    isHeard,
    /** The listeners of a run that has ended, on these channels. */
    of: (loaded: EmitterAtRevision, channels: ReadonlySet<string>): Promise<RunListeners> =>
      read(loaded, channels).catch(() => ({ revision: undefined, unheard: new Set<string>() })),
  };
}

import { untilAborted } from '@wellspring/core/until-aborted';
import type { Deps } from '@wellspring/runtime/deps';
import type { Service } from '@wellspring/runtime/service';
import { deleteRoutes } from './delete-events.ts';
import { createSharedReads } from './frames.ts';
import { listRoutes } from './list-events.ts';
import { replayRoutes } from './replay.ts';
import { runRoutes } from './runs.ts';
import { streamRoutes } from './stream.ts';

type EventsDeps = Pick<
  Deps,
  'store' | 'queue' | 'call' | 'pubsub' | 'buckets' | 'clock' | 'metrics' | 'memory'
>;

/** Lists, replays and streams of events. Streams end when the worker stops. */
export function createEventsService(deps: EventsDeps): Service {
  const draining = new AbortController();
  return {
    name: 'events',
    routes: [
      ...listRoutes(deps),
      ...deleteRoutes(deps),
      ...replayRoutes(deps),
      ...runRoutes(deps),
      ...streamRoutes(deps, createSharedReads(), draining.signal),
    ],
    workers: [
      {
        name: 'streams',
        early: true,
        async run(signal) {
          await untilAborted(signal);
          draining.abort();
        },
      },
    ],
  };
}

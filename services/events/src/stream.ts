import { streamSource } from '@wellspring/contract/endpoints/events';
import { type Route, route } from '@wellspring/http/bind';
import { openStream } from '@wellspring/http/sse';
import { changedTopic, eventsTopic } from '@wellspring/pubsub/port';
import type { Deps } from '@wellspring/runtime/deps';
import { assertReadableSource, stillReadable } from './access.ts';
import { channelOf } from './channel.ts';
import { follow, HANDSHAKE, type Wake } from './follow.ts';
import type { SharedReads } from './frames.ts';
import { resumeAfter } from './resume.ts';

/** Delay before a client reconnects. */
const RETRY_DELAY_MS = 3_000;

type StreamDeps = Pick<Deps, 'store' | 'pubsub' | 'clock' | 'metrics'>;

/**
 * Events of a source as server-sent events, without gap or duplicate across connections that resume by Last-Event-ID.
 * Ends when the source is deleted, the key is revoked, or `draining` aborts.
 */
export function streamRoute(deps: StreamDeps, reads: SharedReads, draining: AbortSignal): Route {
  const { store, pubsub, clock } = deps;
  let open = 0;
  deps.metrics.gauge('wellspring_streams', 'Open event streams.', () => open);

  return route(streamSource, async ({ principal, params, input, signal, req, res }) => {
    const { id } = params;
    await assertReadableSource(store, principal, id);
    const channel = channelOf(store, id, input.event_name);
    const lastEventId = req.get('last-event-id') ?? input.last_event_id;
    const topics: [string, Parameters<Wake>[0]][] = [
      [eventsTopic(id), 'events'],
      [changedTopic(id), 'changed'],
    ];
    if (principal.kind === 'user') topics.push([changedTopic(principal.key_id), 'changed']);

    const after = await resumeAfter(store, id, channel, input.event_name, lastEventId);
    const sink = openStream(res);
    open += 1;
    try {
      if (!(await sink.send(`retry: ${RETRY_DELAY_MS}\n\n${HANDSHAKE}`))) return;
      await follow({
        channel,
        after,
        sink,
        reads,
        clock,
        signal: AbortSignal.any([signal, draining]),
        onWake(wake) {
          const ends = topics.map(([topic, why]) => pubsub.subscribe(topic, () => wake(why)));
          return () => {
            for (const end of ends) end();
          };
        },
        mayContinue: () => stillReadable(store, principal, id),
      });
    } finally {
      open -= 1;
      sink.end();
    }
  });
}

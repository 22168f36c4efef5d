import { streamSource, streamWorkflow } from '@wellspring/contract/endpoints/events';
import { LIMITS } from '@wellspring/contract/limits';
import { createHold } from '@wellspring/core/byte-budget';
import { tooManyRequests } from '@wellspring/core/problem';
import { type RequestContext, type Route, route } from '@wellspring/http/bind';
import { type EventStream, openStream } from '@wellspring/http/sse';
import { changedTopic, eventsTopic } from '@wellspring/pubsub/port';
import type { Deps } from '@wellspring/runtime/deps';
import { isWorkflowId } from '@wellspring/store/collections/emitters';
import { assertReadableSource, assertReadableWorkflow, stillReadable } from './access.ts';
import { type Channel, channelOf, workflowStreamOf } from './channel.ts';
import { follow, type Wake } from './follow.ts';
import type { SharedReads } from './frames.ts';
import { resumeAfter } from './resume.ts';

/** Delay before a client reconnects. */
const RETRY_DELAY_MS = 3_000;

const keepAliveOf = (id: string) => (isWorkflowId(id) ? ':keepalive\n\n' : ':sse-handshake\n\n');

/** Streams of this process. */
function createOpenStreams() {
  const byReader = new Map<string, number>();
  let count = 0;
  return {
    get count() {
      return count;
    },
    /** @returns a function that removes it @throws Problem 429 */
    add(reader: string): () => void {
      const before = byReader.get(reader) ?? 0;
      if (before >= LIMITS.streams) throw tooManyRequests(RETRY_DELAY_MS / 1000);
      byReader.set(reader, before + 1);
      count += 1;
      return () => {
        const left = byReader.get(reader)! - 1;
        if (left > 0) byReader.set(reader, left);
        else byReader.delete(reader);
        count -= 1;
      };
    },
  };
}

type StreamRequest = Omit<RequestContext<typeof streamSource>, 'params'>;
type StreamDeps = Pick<Deps, 'store' | 'pubsub' | 'clock' | 'metrics' | 'memory'>;

/**
 * Events of a source or workflow as server-sent events, without gap or duplicate across connections that resume by
 * Last-Event-ID. A stream ends when its emitter is deleted, the key is revoked, or `draining` aborts. Frames that a slow
 * reader has not taken count as memory of its user; one without room is disconnected.
 */
export function streamRoutes(deps: StreamDeps, reads: SharedReads, draining: AbortSignal): Route[] {
  const { store, pubsub, clock, memory } = deps;
  const open = createOpenStreams();
  deps.metrics.gauge('wellspring_streams', 'Open event streams', () => open.count);

  async function stream(
    id: string,
    channel: Channel,
    { principal, input, signal, req, res }: StreamRequest,
  ): Promise<void> {
    const lastEventId = req.get('last-event-id') ?? input.last_event_id;
    const topics: [string, Parameters<Wake>[0]][] = [
      [eventsTopic(id), 'events'],
      [changedTopic(id), 'changed'],
    ];
    if (principal.kind === 'user') topics.push([changedTopic(principal.key_id), 'changed']);

    const reader = principal.kind === 'user' ? principal.user_id : '';
    const close = open.add(reader);
    let sink: EventStream | undefined;
    try {
      const after = await resumeAfter(store, id, channel, input.event_name, lastEventId);
      const keepAlive = keepAliveOf(id);
      sink = openStream(res, createHold(memory.streams, reader));
      if (!(await sink.send(`retry: ${RETRY_DELAY_MS}\n\n${keepAlive}`))) return;
      await follow({
        channel,
        after,
        sink,
        reads,
        keepAlive,
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
      close();
      sink?.end();
    }
  }

  return [
    route(streamSource, async (request) => {
      const { principal, params, input } = request;
      await assertReadableSource(store, principal, params.id);
      await stream(params.id, channelOf(store, params.id, input.event_name), request);
    }),
    route(streamWorkflow, async (request) => {
      const { principal, params, input } = request;
      await assertReadableWorkflow(store, principal, params.id);
      await stream(params.id, workflowStreamOf(store, params.id, input.event_name), request);
    }),
  ];
}

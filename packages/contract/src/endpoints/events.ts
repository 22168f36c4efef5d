import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import { EventSummary, Nothing, Replayed, SourceEmit } from '../resources.ts';
import { common, eventName, paging } from './parameters.ts';

const service = 'events';

const listInput = {
  ...paging,
  expand: Type.Optional(Type.String({ description: 'event: whole events, also above 1 KB' })),
  ...common,
};

const list = { service, method: 'GET', output: EventSummary, envelope: 'page', problems: [404] } as const;

export const listSourceEvents = defineEndpoint({
  ...list,
  operationId: 'listSourceEvents',
  path: '/sources/{id}/event_summaries',
  summary: 'List the newest events of a source, newest first, at most 100',
  description:
    'Reaches the newest 100 events of the shown channels. Without event_name: the default and all named channels. Events over 1 KB are cut unless expand=event is given.',
  input: Type.Object({ ...listInput, event_name: eventName }),
});

export const listSourceErrors = defineEndpoint({
  ...list,
  operationId: 'listSourceErrors',
  path: '/sources/{id}/$errors/event_summaries',
  summary: 'List the newest errors of a source',
  description: 'A record has the event that the run got, its context and the error.',
  input: Type.Object(listInput),
});

export const listSourceLogs = defineEndpoint({
  ...list,
  operationId: 'listSourceLogs',
  path: '/sources/{id}/$logs/event_summaries',
  summary: 'List the newest log records of a source',
  description: 'Lines of console and the start and end of each run.',
  input: Type.Object(listInput),
});

export const getSourceEvent = defineEndpoint({
  service,
  operationId: 'getSourceEvent',
  method: 'GET',
  path: '/sources/{id}/events/{event_id}',
  summary: 'Read one event of a source, whole. Without event_name: of the default and all named channels',
  description: 'The event is never cut, however large it is.',
  input: Type.Object({ event_name: eventName, ...common }),
  output: EventSummary,
  envelope: 'single',
  problems: [404],
});

export const listSourceEmits = defineEndpoint({
  service,
  operationId: 'listSourceEmits',
  method: 'GET',
  path: '/sources/{id}/events',
  summary: 'List the newest events of a source in a short form, as older clients read them',
  description: 'Newest first, whole. Without event_name: the default and all named channels.',
  input: Type.Object({
    n: Type.Optional(
      Type.Integer({ minimum: 1, description: 'Events, default 10; more than 100 counts as 100' }),
    ),
    event_name: eventName,
    ...common,
  }),
  output: SourceEmit,
  envelope: 'list',
  problems: [404],
});

export const deleteSourceEvents = defineEndpoint({
  service,
  operationId: 'deleteSourceEvents',
  method: 'DELETE',
  path: '/sources/{id}/events',
  summary: 'Delete events of a source: all, from an id on, up to an id, or a range with both ends',
  description:
    'Deletes events of the default and named channels, or of one channel. It reaches all retained events and happens within a second or so. Errors and logs stay unless event_name names their channel.',
  input: Type.Object({
    start_id: Type.Optional(Type.String()),
    end_id: Type.Optional(Type.String()),
    event_name: eventName,
    ...common,
  }),
  output: Nothing,
  envelope: 'null',
  status: 202,
  problems: [404],
});

export const replayEvents = defineEndpoint({
  service,
  operationId: 'replayEvents',
  method: 'POST',
  path: '/sources/{id}/events/replay',
  summary: 'Send events of a source to its listeners again: one, or a range',
  description:
    'The listeners that are subscribed now get the events, in their order: webhooks, sources and workflows, or only listener_id. A webhook gets a new webhook-id and the header x-wellspring-replay: true. Without event_name: the default and all named channels. Retained events only.',
  input: Type.Object({
    event_id: Type.Optional(Type.String({ description: 'One event, instead of a range' })),
    start_id: Type.Optional(Type.String({ description: 'The first event' })),
    end_id: Type.Optional(Type.String({ description: 'The last event; default: the newest' })),
    event_name: eventName,
    listener_id: Type.Optional(Type.String({ description: 'A listener with a subscription to the source' })),
    ...common,
  }),
  example: { start_id: '1606370816223-0' },
  output: Replayed,
  envelope: 'single',
  status: 202,
  problems: [404],
});

const stream = {
  service,
  method: 'GET',
  unversioned: true,
  input: Type.Object({
    last_event_id: Type.Optional(Type.String({ description: 'As the header Last-Event-ID' })),
    event_name: eventName,
    ...common,
  }),
  output: EventSummary,
  envelope: 'stream',
  problems: [404],
} as const;

export const streamSource = defineEndpoint({
  ...stream,
  operationId: 'streamSource',
  path: '/sources/{id}/sse',
  summary: 'Follow the events of a source as server-sent events; Last-Event-ID resumes without a gap',
  description:
    'Sends every new event as a frame with id and data, where data is an event as in the list, never cut. The comment :sse-handshake is sent at once and every 15 seconds. A reader that takes nothing for 15 seconds is disconnected, and a user has at most 500 open streams.',
});

export const listWorkflowEvents = defineEndpoint({
  ...list,
  operationId: 'listWorkflowEvents',
  path: '/workflows/{id}/event_summaries',
  summary: 'List the newest events of a workflow, newest first, at most 100',
  description:
    'What its steps emitted by $.send.emit, as event.raw_event. Events over 1 KB are cut unless expand=event is given.',
  input: Type.Object({ ...listInput, event_name: eventName }),
});

export const listWorkflowErrors = defineEndpoint({
  ...list,
  operationId: 'listWorkflowErrors',
  path: '/workflows/{id}/$errors/event_summaries',
  summary: 'List the newest errors of a workflow',
  description:
    'A record has the event that the run got, its context, and the error with the cell of its step.',
  input: Type.Object(listInput),
});

export const listWorkflowLogs = defineEndpoint({
  ...list,
  operationId: 'listWorkflowLogs',
  path: '/workflows/{id}/$logs/event_summaries',
  summary: 'List the newest log records of a workflow',
  description: 'Lines of console and the start and end of each run.',
  input: Type.Object(listInput),
});

export const streamWorkflow = defineEndpoint({
  ...stream,
  operationId: 'streamWorkflow',
  path: '/workflows/{id}/sse',
  summary: 'Follow the events of a workflow as server-sent events; Last-Event-ID resumes without a gap',
  description:
    'What its steps emit, as on the stream of a source, and what they send by $.send.sse: a frame whose event field is the channel and whose data is the payload. Without Last-Event-ID the stream begins with the newest 100. Its comment is :keepalive.',
});

/**
 * Messages of the queues. Each names its type and version; one of an unknown type becomes a dead letter, one of a newer
 * version waits for a process that knows it.
 */

/** Queue `runs`, keyed by the id of the source or workflow: work for the runner that owns it. */
export type RunsMessage = RunJob | RecordJob | DueJob | DbJob;

/** Replaces `$service.db` of a source, in the order of its runs. */
export interface DbJob {
  v: 1;
  type: 'db';
  /** Makes it idempotent, like a run id. */
  run_id: string;
  source_id: string;
  /** JSON texts by key. */
  db: Record<string, string>;
  /** Reply address at which the service waits until it is done. */
  reply_to: string;
  /** See RunJob. */
  redelivered?: true;
}

export interface RunJob {
  v: 1;
  type: 'run';
  /**
   * Equal for a repetition. Runs of one message, channel and listener are numbered: `<stem>-<n>`, n from 0; other ids
   * have no hyphen.
   */
  run_id: string;
  /** Or the id of a workflow. */
  source_id: string;
  trigger: Trigger;
  /** Number of emits that led to it; see MAX_HOPS. */
  hop: number;
  /** Reply address at which the gateway waits for `respond`; absent: it does not wait. */
  reply_to?: string;
  /** The workflow behind the source that replies, instead of the run of the source. */
  reply_by?: string;
  /** The same from request to delivery attempt. */
  trace_id: string;
  /** Epoch milliseconds. */
  accepted_at: number;
  /** Possible duplicate of a job that was committed: set by a service that republishes it, and by the queue. */
  redelivered?: true;
}

/** Puts an error on the channel `$errors` of the emitter, on behalf of another service. */
export interface RecordJob {
  v: 1;
  type: 'record';
  /** Makes the record idempotent, like a run id. */
  run_id: string;
  source_id: string;
  channel: '$errors';
  /** JSON text of the record. */
  payload: string;
  hop: number;
  /** See RunJob. */
  redelivered?: true;
}

/** A delayed event is due: it becomes an ordinary one. */
export interface DueJob {
  v: 1;
  type: 'due';
  /** Derived from the delayed event. */
  run_id: string;
  source_id: string;
  /** Sort key of the delayed event in the stream `$in`. */
  sort_key: string;
  /** Epoch ms. */
  due_at: number;
  hop: number;
  trace_id: string;
  /** See RunJob. */
  redelivered?: true;
}

export type Trigger =
  | { kind: 'http'; request: HttpRequestRecord }
  | {
      kind: 'timer';
      prop: string /** Epoch ms. */;
      due_at: number;
      interval_seconds?: number;
      cron?: string;
      timezone?: string;
    }
  | {
      kind: 'event';
      /** JSON text of the emitted value. */
      payload: string;
      emitter_id: string;
      event_id: string;
      event_name: string;
      replay?: true;
    }
  | { kind: 'manual' /** JSON text of the event given by the caller. */; payload?: string };

/** An HTTP call as received; `component/http-event` converts it to a run event. */
export interface HttpRequestRecord {
  method: string;
  /** Relative to the endpoint, starts with `/`. */
  path: string;
  /** The raw query, without `?`. */
  query: string;
  /** Lower-case names; repeated ones joined by `, `. */
  headers: Record<string, string>;
  url: string;
  client_ip: string;
  /** The body, if it is valid UTF-8 and not empty. */
  text?: string;
  /** The body in base64, if it is not valid UTF-8. */
  base64?: string;
  /** Of an app hook: the event is only the body. */
  body_only?: true;
  /** The parsed fields of a multipart body; files were replaced by {url, filename, mimetype}. */
  multipart?: Record<string, unknown>;
}

/** Queue `emitted`, keyed by the id of the emitter: committed runs whose events are to be fanned out, and replays. */
export interface EmittedMessage {
  v: 1;
  type: 'emitted';
  /** Of the first run. */
  run_id: string;
  emitter_id: string;
  owner_id: string;
  /** Hops of the run that emitted; its listeners run with one more. */
  hop: number;
  events: EmittedEvent[];
  /** Absent: none. */
  sends?: Send[];
  /** Events that wait in the stream `$in` of the emitter. Absent: none. */
  delayed?: DelayedEvent[];
  /** Revision of the listeners when the run began: the fan-out knows at least these. Absent: the current ones. */
  revision?: number;
  /** Its events are replayed, to one listener or to all. */
  replay?: { id: string; at: number; listener_id?: string };
  /** It may have been published before. */
  redelivered?: true;
}

/** Events to be fanned out again; each job handles some of them and publishes one for the rest. */
export interface ReplayMessage {
  v: 1;
  type: 'replay';
  /** Random: makes its deliveries and runs differ from those of the events and of other replays. */
  replay_id: string;
  /** Epoch ms of the request. */
  at: number;
  emitter_id: string;
  owner_id: string;
  /** Channel; absent: the default and all named channels. */
  event_name?: string;
  /** Sort keys: exclusive and inclusive. */
  after: string;
  end: string;
  /** Absent: all listeners. */
  listener_id?: string;
  redelivered?: true;
}

export interface EmittedEvent {
  /** `<ms>-<n>` */
  event_id: string;
  /** Channel: '' is the default one. */
  name: string;
  /** JSON text, as serialised at emit. */
  payload: string;
  trace_id: string;
  /** Of a run with `reply_by`: the reply address, and the workflow that replies. */
  reply?: { to: string; by: string } | undefined;
}

/** An event with a `delivery_ts` in the future. */
export interface DelayedEvent {
  /** In the stream `$in`. */
  sort_key: string;
  /** Epoch ms. */
  due_at: number;
  trace_id: string;
}

/** A call of `$.send.http`, `.email` or `.s3`: the delivery service makes the request after the commit of the run. */
export interface Send {
  /** `<run_id>/<n>`, n from 0 within the run: equal for a repetition. */
  id: string;
  /** Epoch ms, equal for a repetition. */
  at: number;
  kind: 'http' | 'email' | 's3';
  /** JSON text of the argument, as user code gave it: neither checked nor limited to known fields. */
  request: string;
  /** For the record on `$errors` if it fails. */
  run_id: string;
  deployment_id: string;
  /** `c_` id of the step. */
  cell_id: string;
  /** Of a run that handles records of `$errors` or `$logs`: a failure is stored, but triggers nothing. */
  handles_records?: true;
}

/** Maximum number of hops; a further emit is refused with a record on `$errors`. */
export const MAX_HOPS = 10;

/** Reply to the gateway for an HTTP call with a custom response. */
export type HttpReply =
  | {
      kind: 'response';
      status: number;
      headers: Record<string, string | string[]> /** Base64. */;
      body: string;
    }
  /** The run ended without `respond`. */
  | { kind: 'none' }
  /** The run threw before `respond`, or responded with an invalid status. */
  | { kind: 'failed' }
  /** The source is deleted or inactive. */
  | { kind: 'refused' };

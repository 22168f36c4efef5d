/**
 * What travels through the queues. Every message names its type and version; a consumer refuses what it does not
 * know, which puts it among the dead letters instead of losing it.
 */

/** Queue `runs`, keyed by the id of the source: work for the runner that owns that source. */
export type RunsMessage = RunJob | RecordJob;

export interface RunJob {
  v: 1;
  type: 'run';
  /**
   * The same for the same work. Runs of one message, of one channel and for one listener, are
   * numbered: `<stem>-<n>`, n from 0; nothing else has a hyphen.
   */
  run_id: string;
  source_id: string;
  trigger: Trigger;
  /** How many emits led here; see MAX_HOPS. */
  hop: number;
  /** Where the gateway waits for `respond`; see the port `call`. Absent: nobody waits. */
  reply_to?: string;
  /** From request to attempt the same. */
  trace_id: string;
  /** Epoch milliseconds. */
  accepted_at: number;
  /** It may have run before, longer ago than the state of the source lists. */
  redelivered?: true;
}

/** Puts a record on a reserved channel of the emitter, on behalf of another service. */
export interface RecordJob {
  v: 1;
  type: 'record';
  /** Makes the record idempotent, like a run id. */
  run_id: string;
  source_id: string;
  channel: '$errors' | '$logs';
  /** JSON text of the record. */
  payload: string;
  hop: number;
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
    }
  | { kind: 'manual' /** JSON text of the event given by the caller. */; payload?: string };

/** An HTTP call as it was received; `component/http-event` makes the run event of it. */
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
  /** The body when it is valid UTF-8; absent when empty. */
  text?: string;
  /** The body in base64 when it is not. */
  base64?: string;
  /** The parsed fields of a multipart body; files were replaced by {url, filename, mimetype}. */
  multipart?: Record<string, unknown>;
}

/** Queue `emitted`, keyed by the id of the emitter: committed runs whose events are to be fanned out. */
export interface EmittedMessage {
  v: 1;
  type: 'emitted';
  /** Of the first run. */
  run_id: string;
  emitter_id: string;
  owner_id: string;
  /** Hops of the run that emitted; what listens to it runs with one more. */
  hop: number;
  events: EmittedEvent[];
  /** It may have been published before, any time ago. */
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
}

/** An emit whose run has this many hops behind it is refused with a record on `$errors`. */
export const MAX_HOPS = 10;

/** What the gateway gets for an HTTP call with a custom response. */
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
  /** The source is gone or inactive. */
  | { kind: 'refused' };

import type { CollectionDefinition } from '../collection-definition.ts';

/**
 * Each stream of an emitter numbers its own ids. `events`: the default and the named channels. `$in`: delayed events that
 * are not due. `$sse`: events that a workflow sends to its own stream, with ids of `events`. `$logs` has other rows, see
 * LogRow.
 */
export type EventStream = 'events' | '$errors' | '$in' | '$sse';

export interface EventRow {
  /** `<emitter_id>/<stream>/<sort key of the event id>` */
  id: string;
  emitter_id: string;
  stream: EventStream;
  /** `<emitter_id>/<stream>`: the rows that a list reads. */
  partition: string;
  /** `<emitter_id>/<stream>/<name>`: the rows of one channel; null: the default one. */
  channel: string | null;
  /** See core/event-id `eventSortKey`. */
  sort_key: string;
  run_id: string;
  /** Of a delayed event: when it is due. */
  indexed_at_ms: number;
  /** Name of the channel; '' is the default one. */
  name: string;
  emit_id: string;
  /** `id`, `summary` and `ts` of the options of $emit. */
  meta_id: string | number | null;
  summary: string | null;
  ts: number | null;
  /** JSON text of the emitted value, byte for byte as serialised at emit. */
  payload: string;
}

/** The rows of one channel. @param name '': the default one */
export const channelWhere = (emitterId: string, stream: EventStream, name: string) => {
  const partition = `${emitterId}/${stream}`;
  return { partition, channel: name === '' ? null : `${partition}/${name}` };
};

export const events: CollectionDefinition<EventRow> = {
  name: 'events',
  indexes: [
    { fields: ['partition', 'sort_key'], primary: true },
    { fields: ['channel', 'sort_key'], sparse: true },
  ],
  texts: ['payload'],
};

/**
 * Logs of a run: consecutive event ids of the stream `$logs`, one per record. A run that lasts has several rows. The one
 * written with its commit is the mark of the committed run, by which a redelivered one is known (index `run_id`).
 */
export interface LogRow {
  /** `<emitter_id>/<sort key of the first record>` */
  id: string;
  emitter_id: string;
  sort_key: string;
  run_id: string;
  /** The run is committed. */
  ended?: true;
  indexed_at_ms: number;
  /** Number of records; their ids are `<ms>-<n>` … `<ms>-<n + count - 1>`. */
  count: number;
  /** JSON text: an array of log records, without the `execution_id` that is the run id; see recordsOf. */
  records: string;
}

/** The records of a row as they were emitted: their fields have the same order. */
export const recordsOf = <T extends object>({ run_id, records }: Pick<LogRow, 'run_id' | 'records'>): T[] =>
  (JSON.parse(records) as Record<string, unknown>[]).map((record) => {
    const { ts, k, level, ...rest } = record;
    // Records of other services may have another form.
    return (k === undefined ? record : { ts, k, level, execution_id: run_id, ...rest }) as unknown as T;
  });

/** `emitter_id` of the marks of jobs that write no log record; they are not listed. */
export const marksOf = (emitterId: string) => `${emitterId}/jobs`;

export const logs: CollectionDefinition<LogRow> = {
  name: 'logs',
  indexes: [{ fields: ['run_id'] }, { fields: ['emitter_id', 'sort_key'], primary: true }],
  texts: ['records'],
};

import { randomInt } from 'node:crypto';
import { errorRecordJob } from '@wellspring/contract/error-record';
import { type EmittedMessage, MAX_HOPS, type RecordJob, type Send } from '@wellspring/contract/messages';
import { derivedId, derivedRunId } from '@wellspring/core/ids';
import { parsedBytes } from '@wellspring/core/parsed-size';
import { Unavailable } from '@wellspring/core/unavailable';
import type { Deps } from '@wellspring/runtime/deps';
import { type DeliveryRow, deliveries, NOT_ATTEMPTED } from '@wellspring/store/collections/webhooks';
import { LEASE_MS } from '../lease.ts';
import { SendError, type SendLimits, type SendOne } from './arguments.ts';

/** A request of a workflow: like the delivery to a webhook, with permits of the workflow. */
export const sendRow = (
  { emitter_id, owner_id, hop }: EmittedMessage,
  send: Send,
  now: number,
): DeliveryRow => ({
  id: derivedId('dlv', send.at, send.id),
  send: true,
  webhook_id: emitter_id,
  owner_id,
  emitter_id,
  event_id: null,
  event_name: '',
  hop: hop + 1,
  ...NOT_ATTEMPTED,
  created_at: Math.floor(now / 1000),
  payload: JSON.stringify(send),
});

/** Memory that the request of such a row takes while it is made, besides the row; 0 for the delivery to a webhook. */
export function requestBytes({ send, payload }: DeliveryRow): number {
  if (!send) return 0;
  const { request = '' } = JSON.parse(payload) as Partial<Send>;
  return parsedBytes(request) - Buffer.byteLength(request);
}

/** Writes fields of the row; false if another process has it, or it was removed. */
type Write = (fields: Partial<DeliveryRow>) => Promise<boolean>;

/**
 * Makes the request of a row, once, and writes its outcome; the row stays, so that a repeated fan-out does not repeat the
 * request. A failure is a record on `$errors` of the workflow: it is written into the row before it is published, so that
 * only the record is repeated if that fails. @throws Unavailable before the request was made
 */
export type Sender = (row: DeliveryRow, now: number, write: Write, limits: SendLimits) => Promise<void>;

/** Requests a second of one owner; twice as many at once. */
const RATES: Partial<Record<Send['kind'], number>> = { email: 1, s3: 20 };
/** Requests beyond the rate are spread over half of the time that those that wait will take, within these bounds. */
const MIN_SPREAD_MS = 10_000;
const MAX_SPREAD_MS = 600_000;
/** Each one costs time. */
const MAX_COUNTED = 5_000;

const DONE = { due_at: null, payload: '' };

export function createSender(
  { store, queue, buckets, clock, log }: Pick<Deps, 'store' | 'queue' | 'buckets' | 'clock' | 'log'>,
  kinds: Record<Send['kind'], SendOne>,
): Sender {
  const rows = store.collection(deliveries);

  /** Ms until the request is to be tried again; 0: it is within the rate of its owner. */
  async function delayOf({ kind }: Send, { owner_id, webhook_id }: DeliveryRow): Promise<number> {
    const rate = RATES[kind];
    if (rate === undefined) return 0;
    const seconds = await buckets.take(`send/${kind}/${owner_id}`, rate);
    if (seconds === 0) return 0;
    const waiting = await rows.count({ webhook_id, due_at: { gt: clock.now() } }, MAX_COUNTED);
    const spread = Math.min(MAX_SPREAD_MS, Math.max(MIN_SPREAD_MS, (waiting / rate / 2) * 1_000));
    return Math.ceil(seconds * 1_000) + randomInt(Math.ceil(spread));
  }

  /** Makes the request; returns why it failed. */
  async function make(row: DeliveryRow, send: Send, limits: SendLimits): Promise<SendError | undefined> {
    try {
      const request: unknown = JSON.parse(send.request);
      await kinds[send.kind](typeof request === 'object' && request ? { ...request } : {}, {
        id: send.id,
        owner_id: row.owner_id,
        hop: row.hop,
        at: send.at,
        ...limits,
      });
      return undefined;
    } catch (error) {
      if (error instanceof SendError) return error;
      // It was not made.
      if (error instanceof Unavailable) throw error;
      log.error({ send_id: send.id, error: String(error) }, 'send.failed');
      return new SendError(`$.send.${send.kind} failed.`);
    }
  }

  return async (row, now, write, limits) => {
    let job = JSON.parse(row.payload) as Send | RecordJob;
    if (!('type' in job)) {
      const delay = await delayOf(job, row);
      limits.assertHeld();
      if (delay > 0) {
        await write({ due_at: now + delay });
        return;
      }
      const attempts = row.attempts + 1;
      const failure = await make(row, job, limits);
      if (!failure) {
        await write({ ...DONE, status: 'delivered', attempts });
        return;
      }
      job = failureOf(row, job, failure, now);
      const due_at = now + LEASE_MS;
      if (!(await write({ attempts, due_at, payload: JSON.stringify(job) }))) return;
    }
    await queue.publish('runs', { key: job.source_id, payload: JSON.stringify(job) });
    await write({ ...DONE, status: 'failed' });
  };
}

function failureOf(row: DeliveryRow, send: Send, error: Error, now: number): RecordJob {
  const job = errorRecordJob({
    run_id: derivedRunId(send.id),
    emitter: { id: row.webhook_id, owner_id: row.owner_id, deployment_id: send.deployment_id },
    source_type: 'SEND',
    context_id: send.run_id,
    cell_id: send.cell_id,
    code: error.name,
    msg: error.message,
    now,
  });
  return { ...job, hop: send.handles_records ? MAX_HOPS + 1 : row.hop };
}

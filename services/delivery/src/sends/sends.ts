import { errorRecordJob } from '@wellspring/contract/error-record';
import type { EmittedMessage, RecordJob, Send } from '@wellspring/contract/messages';
import { derivedRunId, newId } from '@wellspring/core/ids';
import type { Log } from '@wellspring/core/log';
import type { Queue } from '@wellspring/queue/port';
import type { DeliveryRow } from '@wellspring/store/collections/webhooks';
import { SendError, type SendOne } from './arguments.ts';

/**
 * A delivery row for a request of a workflow. It takes part in leases and permits like the delivery to a webhook; the
 * permits are those of the workflow.
 */
export const sendRow = (
  { emitter_id, owner_id, hop }: EmittedMessage,
  send: Send,
  now: number,
  due_at: number,
): DeliveryRow => ({
  id: newId('dlv'),
  send: true,
  webhook_id: emitter_id,
  owner_id,
  dedupe_key: `send/${send.id}`,
  emitter_id,
  event_id: null,
  event_name: '',
  hop: hop + 1,
  status: 'pending',
  attempts: 0,
  due_at,
  waiting: null,
  failed_at_ms: null,
  log: '',
  created_at: Math.floor(now / 1000),
  created_at_ms: now,
  payload: JSON.stringify(send),
});

/** Writes fields of the row that is leased; false if the lease was lost or the row removed. */
type Write = (fields: Partial<DeliveryRow>) => Promise<boolean>;

/**
 * Makes the request of a row, once, and writes its outcome; the row stays, so that a repeated fan-out does not repeat the
 * request. A failure is a record on `$errors` of the workflow: it is written into the row before it is published, so that
 * only the record is repeated if that fails.
 */
export type Sender = (row: DeliveryRow, now: number, write: Write) => Promise<void>;

const OVER = { due_at: null, payload: '' };

export function createSender(
  { queue, log }: { queue: Queue; log: Log },
  kinds: Record<Send['kind'], SendOne>,
): Sender {
  /** Makes the request; returns why it failed. */
  async function make(row: DeliveryRow, send: Send): Promise<SendError | undefined> {
    try {
      const request: unknown = JSON.parse(send.request);
      await kinds[send.kind](typeof request === 'object' && request ? { ...request } : {}, {
        id: send.id,
        owner_id: row.owner_id,
        at: row.created_at_ms,
      });
      return undefined;
    } catch (error) {
      if (error instanceof SendError) return error;
      log.error({ send_id: send.id, error: String(error) }, 'send.failed');
      return new SendError(`$.send.${send.kind} failed.`);
    }
  }

  return async (row, now, write) => {
    let job = JSON.parse(row.payload) as Send | RecordJob;
    if (!('type' in job)) {
      const attempts = row.attempts + 1;
      const failure = await make(row, job);
      if (!failure) {
        await write({ ...OVER, status: 'delivered', attempts });
        return;
      }
      job = failureOf(row, job, failure, now);
      if (!(await write({ attempts, payload: JSON.stringify(job) }))) return;
    }
    await queue.publish('runs', { key: job.source_id, payload: JSON.stringify(job) });
    await write({ ...OVER, status: 'failed' });
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
  return { ...job, hop: row.hop };
}

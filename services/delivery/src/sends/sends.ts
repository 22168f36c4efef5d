import { createHash } from 'node:crypto';
import { errorRecordJob } from '@wellspring/contract/error-record';
import type { EmittedMessage, RecordJob, Send } from '@wellspring/contract/messages';
import { newId } from '@wellspring/core/ids';
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
  log: [],
  created_at: Math.floor(now / 1000),
  created_at_ms: now,
  payload: JSON.stringify(send),
});

/**
 * Makes the request of a row, once: a failure is a record on `$errors` of the workflow. Returns the fields to write;
 * the row stays, so that a repeated fan-out does not repeat the request.
 */
export type Sender = (row: DeliveryRow, now: number) => Promise<Partial<DeliveryRow>>;

export function createSender(
  { queue, log }: { queue: Queue; log: Log },
  kinds: Record<Send['kind'], SendOne>,
): Sender {
  return async (row, now) => {
    const send = JSON.parse(row.payload) as Send;
    const done = { attempts: row.attempts + 1, due_at: null, payload: '' };
    try {
      const request: unknown = JSON.parse(send.request);
      await kinds[send.kind](typeof request === 'object' && request ? { ...request } : {}, {
        id: send.id,
        owner_id: row.owner_id,
        at: row.created_at_ms,
      });
      return { ...done, status: 'delivered' };
    } catch (error) {
      const isShown = error instanceof SendError;
      if (!isShown) log.error({ send_id: send.id, error: String(error) }, 'send.failed');
      const shown = isShown ? error : new SendError(`$.send.${send.kind} failed.`);
      const job = failureOf(row, send, shown, now);
      await queue.publish('runs', { key: job.source_id, payload: JSON.stringify(job) });
      return { ...done, status: 'failed' };
    }
  };
}

function failureOf(row: DeliveryRow, send: Send, error: Error, now: number): RecordJob {
  const job = errorRecordJob({
    run_id: `run_${createHash('sha256').update(send.id).digest('hex').slice(0, 32)}`,
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

import { type Job, NewerVersion, PoisonJob } from './port.ts';

/** Common to the messages on the queues; see contract/messages. */
interface Message {
  v: 1;
  type: string;
  redelivered?: true;
}

/**
 * The message of a job, flagged as redelivered if the job may have been handled before.
 * @param types that the consumer handles
 * @throws PoisonJob for anything else, NewerVersion
 */
export function readMessage<M extends Message>(job: Job, types: readonly M['type'][]): M {
  const message = parse(job);
  if (Number(message?.v) > 1) throw new NewerVersion(job.id, message!.v);
  if (message?.v !== 1 || !types.includes(message.type)) {
    throw new PoisonJob(job.id, `Unknown message: expected version 1 and type ${types.join(', ')}.`);
  }
  return job.redelivered ? { ...message, redelivered: true } : message;

  function parse({ id, payload }: Job): M | null {
    try {
      return JSON.parse(payload) as M | null;
    } catch {
      throw new PoisonJob(id, 'Malformed job: the payload is not JSON.');
    }
  }
}

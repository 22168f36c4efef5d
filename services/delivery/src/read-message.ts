import { type Job, PoisonJob } from '@wellspring/queue/port';

interface Message {
  v: number;
  type: string;
}

/** @throws PoisonJob for an unknown type or version: the job becomes a dead letter */
export function readMessage<M extends Message>(job: Job, type: M['type'], v: M['v']): M {
  let message: Message | undefined;
  try {
    message = JSON.parse(job.payload) as Message;
  } catch {
    throw new PoisonJob(job.id, 'Malformed job: the payload is not JSON.');
  }
  if (message?.type !== type || message.v !== v) {
    throw new PoisonJob(job.id, `Unknown message: expected type ${type}, version ${v}.`);
  }
  return message as M;
}

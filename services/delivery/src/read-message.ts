import { type Job, PoisonJob } from '@wellspring/queue/port';

interface Message {
  v: number;
  type: string;
}

/**
 * The message of a job, if it is of the type and version that are understood here.
 * @throws PoisonJob for any other, so that it is kept instead of lost
 */
export function readMessage<M extends Message>(job: Job, type: M['type'], v: M['v']): M {
  let message: Message | undefined;
  try {
    message = JSON.parse(job.payload) as Message;
  } catch {
    throw new PoisonJob(job.id, 'The job is no JSON.');
  }
  if (message?.type !== type || message.v !== v) {
    throw new PoisonJob(job.id, `The job is no message ${type}, version ${v}.`);
  }
  return message as M;
}

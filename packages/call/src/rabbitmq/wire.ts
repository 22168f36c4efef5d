import { Problem } from '@wellspring/core/problem';
import type { ProblemCode } from '@wellspring/core/problem-codes';
import { CallFailed } from '../port.ts';

/** RabbitMQ replaces it with the address of the sender's channel. */
export const REPLY_TO = 'amq.rabbitmq.reply-to';
/** Message type of discovery; `discover:<address>` is the correlation id of the replies. */
export const DISCOVER = 'discover';
/** Message type that asks whether a request is still in progress. */
export const PROBE = 'probe';
/** Replies to a probe: the request is unknown, or in progress. */
export const UNKNOWN = 'unknown';
export const WORKING = 'working';

interface Reply {
  answer?: unknown;
  problem?: {
    status: number;
    code: ProblemCode;
    message: string;
    param?: string;
    headers: Record<string, string>;
  };
  failed?: true;
}

export const encode = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));

export const encodeAnswer = (answer: unknown): Buffer => encode({ answer } satisfies Reply);

/** Only a Problem carries details. */
export function encodeFailure(error: unknown): Buffer {
  if (!(error instanceof Problem)) return encode({ failed: true } satisfies Reply);
  const { status, code, message, param, headers } = error;
  return encode({
    problem: { status, code, message, headers, ...(param === undefined ? {} : { param }) },
  } satisfies Reply);
}

/** @throws Problem, CallFailed */
export function decodeAnswer(content: Buffer, address: string): unknown {
  const { answer, problem, failed } = JSON.parse(content.toString()) as Reply;
  if (problem) throw new Problem(problem);
  if (failed) throw new CallFailed(`The server of ${address} failed.`);
  return answer;
}

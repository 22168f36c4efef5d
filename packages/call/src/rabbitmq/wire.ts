import { Problem } from '@wellspring/core/problem';
import type { ProblemCode } from '@wellspring/core/problem-codes';
import { CallFailed } from '../port.ts';

/** Types of the messages between processes. `correlationId` names the request, `replyTo` the process that sent it. */
export type Type =
  /** To all servers of an address: who serves it? */
  | 'who'
  /** The answer of one of them. */
  | 'here'
  | 'request'
  | 'answer'
  /** Instead of an answer: the receiver does not serve the address. */
  | 'absent'
  /** Is the request still in progress? */
  | 'probe'
  | 'working'
  /** The request, or its answer, was lost with a connection of the server. */
  | 'unknown'
  /** For a reply address. */
  | 'reply';

export interface Request {
  address: string;
  message: unknown;
  key?: string;
}

interface Answer {
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

export const encodeAnswer = (answer: unknown): Buffer => encode({ answer } satisfies Answer);

/** Only a Problem carries details. */
export function encodeFailure(error: unknown): Buffer {
  if (!(error instanceof Problem)) return encode({ failed: true } satisfies Answer);
  const { status, code, message, param, headers } = error;
  return encode({
    problem: { status, code, message, headers, ...(param === undefined ? {} : { param }) },
  } satisfies Answer);
}

/** @throws Problem, CallFailed */
export function decodeAnswer(content: Buffer, address: string): unknown {
  const { answer, problem, failed } = JSON.parse(content.toString()) as Answer;
  if (problem) throw new Problem(problem);
  if (failed) throw new CallFailed(`The server of ${address} failed.`);
  return answer;
}

import { Problem } from '@wellspring/core/problem';
import type { ProblemCode } from '@wellspring/core/problem-codes';
import { CallFailed } from './port.ts';

interface Answered {
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

export const encodeAnswer = (answer: unknown): Buffer => encode({ answer } satisfies Answered);

/** A Problem with all that it says; of anything else, that it failed. */
export function encodeFailure(error: unknown): Buffer {
  if (!(error instanceof Problem)) return encode({ failed: true } satisfies Answered);
  const { status, code, message, param, headers } = error;
  return encode({
    problem: { status, code, message, headers, ...(param === undefined ? {} : { param }) },
  } satisfies Answered);
}

/** @throws Problem, CallFailed */
export function decodeAnswer(content: Buffer, address: string): unknown {
  const { answer, problem, failed } = JSON.parse(content.toString()) as Answered;
  if (problem) throw new Problem(problem);
  if (failed) throw new CallFailed(`${address} failed`);
  return answer;
}

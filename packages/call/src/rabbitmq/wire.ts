import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { MAX_MESSAGE_BYTES } from '@wellspring/amqp/publisher';
import { Problem } from '@wellspring/core/problem';
import type { ProblemCode } from '@wellspring/core/problem-codes';
import { CallFailed } from '../port.ts';

/**
 * Types of the messages between processes. `replyTo` names the process that sent the message, `correlationId` the `who`
 * or `request` that it belongs to; of a `reply`, the reply address.
 */
export type Type =
  /** To all servers of an address: who serves it? */
  | 'who'
  /** Answers `who`: the sender serves it. */
  | 'here'
  /** To one server. */
  | 'request'
  /** Answers `request` with its result or failure. */
  | 'answer'
  /** Answers `request`: the receiver does not serve the address, or not certainly the key, and has not executed it. */
  | 'absent'
  /** To the server of a request: is it still in progress? */
  | 'probe'
  /** Answers `probe`: it is. */
  | 'working'
  /** Answers `probe`: it is not. The request, or its answer, was lost with a connection of the server. */
  | 'unknown'
  /** To a reply address. */
  | 'reply'
  /** To the sender itself: does it still receive messages? */
  | 'check';

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

/** Messages of this size are compressed: compiled code has megabytes. */
const MIN_COMPRESSED_BYTES = 256 * 1024;
/** The first byte of compressed content. No JSON text begins with it. */
const ZSTD = 0x28;

/**
 * @throws TypeError if it is not JSON; RangeError if it is too large: the broker would close the channel, which all
 * requests share
 */
export function encode(value: unknown): Buffer {
  const plain = Buffer.from(JSON.stringify(value));
  const content = plain.length < MIN_COMPRESSED_BYTES ? plain : zstdCompressSync(plain);
  if (content.length > MAX_MESSAGE_BYTES)
    throw new RangeError(`A message of ${content.length} bytes exceeds the limit of ${MAX_MESSAGE_BYTES}.`);
  return content;
}

/** @throws Error if it is malformed */
export const decode = (content: Buffer): unknown =>
  JSON.parse((content[0] === ZSTD ? zstdDecompressSync(content) : content).toString());

/** @throws Error if it is malformed */
export function decodeRequest(content: Buffer): Request {
  const { address, message, key } = decode(content) as Request;
  return { address, message, ...(key === undefined ? {} : { key }) };
}

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
  const { answer, problem, failed } = answerOf(content, address);
  if (problem) throw new Problem(problem);
  if (failed) throw new CallFailed(`The server of ${address} failed.`);
  return answer;
}

/** @throws CallFailed */
function answerOf(content: Buffer, address: string): Answer {
  try {
    const decoded = decode(content);
    if (typeof decoded === 'object' && decoded !== null) return decoded;
  } catch {
    // It is malformed, too.
  }
  throw new CallFailed(`The server of ${address} sent a malformed answer.`);
}

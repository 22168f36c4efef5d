import { LIMITS } from '@wellspring/contract/limits';
import { systemClock } from '@wellspring/core/clock';
import type { ChildIO, Respond } from './program-types.ts';

/** A name and a value that Node.js sends. */
const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** `this.http.respond`. @param customResponse the prop allows it; otherwise the call only logs a warning */
export function createRespond(io: ChildIO, customResponse: boolean): (reply?: unknown) => Promise<void> {
  return (given) => {
    if (!customResponse) {
      const msg = 'respond() was ignored: the HTTP prop needs customResponse: true.';
      io.log({ ts: systemClock.now(), level: 'warn', msg });
      return Promise.resolve();
    }
    io.respond(readReply(given));
    return Promise.resolve();
  };
}

/** A response as code gives it: `{status, headers, body}`. @throws Error when it cannot be sent */
export function readReply(given: unknown): Respond {
  const reply = (typeof given === 'object' && given !== null ? given : {}) as Record<string, unknown>;
  const status = readStatus(reply.status);
  const headers = readHeaders(reply.headers);
  const { bytes, json } = readBody(reply.body);
  checkSize(bytes.length);
  if (json && !Object.keys(headers).some((name) => name.toLowerCase() === 'content-type')) {
    headers['content-type'] = 'application/json; charset=utf-8';
  }
  return { status, headers, body: bytes.toString('base64') };
}

export type Stream = AsyncIterable<Uint8Array | string>;

export const isStream = (body: unknown): body is Stream =>
  typeof body === 'object' && body !== null && Symbol.asyncIterator in body;

/** The bytes of a stream. @throws RangeError when a response cannot have as many */
export async function readStream(body: Stream): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    const part = Buffer.from(chunk as Uint8Array);
    bytes += part.length;
    checkSize(bytes);
    chunks.push(part);
  }
  return Buffer.concat(chunks);
}

function checkSize(bytes: number): void {
  if (bytes <= LIMITS.replyBody) return;
  throw new RangeError(`The body of a response has at most ${LIMITS.replyBody / 1024 ** 2} MB.`);
}

function readStatus(status: unknown): number {
  if (status === undefined || status === null) return 200;
  const number = typeof status === 'string' && /^\d+$/.test(status.trim()) ? Number(status) : status;
  if (typeof number !== 'number' || !Number.isInteger(number) || number < 100 || number > 599) {
    throw new RangeError(
      `The status of a response has to be an integer from 100 to 599, not ${String(status)}.`,
    );
  }
  return number;
}

function readHeaders(headers: unknown): Record<string, string | string[]> {
  const result: Record<string, string | string[]> = {};
  if (typeof headers !== 'object' || headers === null) return result;
  let lines = 0;
  let bytes = 0;
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || value === null) continue;
    result[name] = Array.isArray(value) ? value.map(String) : String(value);
    for (const one of [result[name]].flat()) {
      checkHeader(name, one);
      lines += 1;
      bytes += name.length + one.length + 4;
    }
  }
  if (lines > LIMITS.replyHeaders)
    throw new RangeError(`A response has at most ${LIMITS.replyHeaders} headers.`);
  if (bytes > LIMITS.replyHeaderBytes)
    throw new RangeError(`The headers of a response have at most ${LIMITS.replyHeaderBytes / 1024} KB.`);
  return result;
}

function checkHeader(name: string, value: string): void {
  if (!HEADER_NAME.test(name))
    throw new TypeError(`A response cannot have a header named ${JSON.stringify(name)}.`);
  if (!HEADER_VALUE.test(value))
    throw new TypeError(`The header ${name} of a response has a character that is not allowed in it.`);
}

function readBody(body: unknown): { bytes: Buffer; json: boolean } {
  if (body === undefined || body === null) return { bytes: Buffer.alloc(0), json: false };
  if (typeof body === 'string') return { bytes: Buffer.from(body), json: false };
  if (body instanceof Uint8Array) return { bytes: Buffer.from(body), json: false };
  if (body instanceof ArrayBuffer) return { bytes: Buffer.from(body), json: false };
  return { bytes: Buffer.from(JSON.stringify(body) ?? ''), json: true };
}

import { systemClock } from '@wellspring/core/clock';
import type { ChildIO, Respond } from './program-types.ts';

/** Its Base64 text fits into a frame. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;

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

/** A response as code gives it: `{status, headers, body}`. @throws RangeError for another status */
export function readReply(given: unknown): Respond {
  const reply = (typeof given === 'object' && given !== null ? given : {}) as Record<string, unknown>;
  const status = readStatus(reply.status);
  const headers = readHeaders(reply.headers);
  const { bytes, json } = readBody(reply.body);
  if (json && !Object.keys(headers).some((name) => name.toLowerCase() === 'content-type')) {
    headers['content-type'] = 'application/json; charset=utf-8';
  }
  return { status, headers, body: bytes.toString('base64') };
}

/** The bytes of a stream, at most as many as a response may have; any other body unchanged. */
export async function readStream(body: unknown): Promise<unknown> {
  const isStream = typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
  if (!isStream) return body;
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Uint8Array | string>) {
    const part = Buffer.from(chunk as Uint8Array);
    bytes += part.length;
    if (bytes > MAX_BODY_BYTES) throw new RangeError('The body of a response has at most 4 MB.');
    chunks.push(part);
  }
  return Buffer.concat(chunks);
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
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || value === null) continue;
    result[name] = Array.isArray(value) ? value.map(String) : String(value);
  }
  return result;
}

function readBody(body: unknown): { bytes: Buffer; json: boolean } {
  if (body === undefined || body === null) return { bytes: Buffer.alloc(0), json: false };
  if (typeof body === 'string') return { bytes: Buffer.from(body), json: false };
  if (body instanceof Uint8Array) return { bytes: Buffer.from(body), json: false };
  if (body instanceof ArrayBuffer) return { bytes: Buffer.from(body), json: false };
  return { bytes: Buffer.from(JSON.stringify(body) ?? ''), json: true };
}

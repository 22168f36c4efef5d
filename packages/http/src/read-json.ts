import type { IncomingMessage } from 'node:http';
import { LIMITS } from '@wellspring/contract/limits';
import type { Hold } from '@wellspring/core/byte-budget';
import { pauseIfLarge } from '@wellspring/core/in-pieces';
import { isTooDeep, MAX_DEPTH } from '@wellspring/core/json-depth';
import { parsedBytes, parsedSize } from '@wellspring/core/parsed-size';
import { malformedBody, unsupportedMediaType } from '@wellspring/core/problem';
import { decodeUtf8, withoutByteOrderMark } from '@wellspring/core/utf8';
import { holdBody, readBody } from './read-body.ts';

const TOO_LARGE = `The body has too many keys or elements: its value takes more than ${LIMITS.bodyValue / 1024 ** 2} MB of memory.`;

/**
 * The body as a JSON object; an empty body is an empty object.
 * @param hold of the body, and of its value as far as that takes more memory
 * @throws Problem 400 (no JSON, no object, no UTF-8, nested too deeply, too many keys), 415; BodyTooLarge, NoRoomForBody
 */
export async function readJsonObject(
  req: IncomingMessage,
  limit: number,
  hold?: Hold,
): Promise<Record<string, unknown>> {
  const bytes = await readBody(req, limit, hold);
  if (bytes.length === 0) return {};
  if (!isJson(req.headers['content-type'])) throw unsupportedMediaType();
  const { 'content-encoding': encoding = 'identity' } = req.headers;
  if (!/^(?:identity)?$/i.test(encoding))
    throw unsupportedMediaType('The body must not be compressed: the API reads no content-encoding.');
  await pauseIfLarge(bytes.length);
  const text = decode(bytes);
  await pauseIfLarge(bytes.length);
  if (isTooDeep(text)) throw malformedBody(`The body is nested more than ${MAX_DEPTH} levels deep.`);
  const size = parsedSize(text, LIMITS.bodyValue);
  if (size > LIMITS.bodyValue) throw malformedBody(TOO_LARGE);
  holdBody(req, parsedBytes(text, size));
  await pauseIfLarge(bytes.length);
  const value = parse(text);
  await pauseIfLarge(bytes.length);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw malformedBody('The body has to be a JSON object.');
  }
  return value as Record<string, unknown>;
}

function isJson(contentType: string | undefined): boolean {
  const type = (contentType ?? '').split(';', 1)[0]!.trim().toLowerCase();
  return type === 'application/json' || (type.startsWith('application/') && type.endsWith('+json'));
}

function decode(bytes: Buffer): string {
  const text = decodeUtf8(bytes);
  if (text === undefined) throw malformedBody('The body is not valid UTF-8.');
  return withoutByteOrderMark(text);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw malformedBody(`The body is not valid JSON: ${(error as Error).message.slice(0, 200)}`);
  }
}

import type { IncomingMessage } from 'node:http';
import { malformedBody, payloadTooLarge, unsupportedMediaType } from '@wellspring/core/problem';
import { BodyTooLarge, readBody } from './read-body.ts';

/** Deeper values could not be written again without exhausting the stack. */
const DEEPEST = 500;

const decoder = new TextDecoder('utf-8', { fatal: true });

const MEGABYTE = 1024 * 1024;

/**
 * The JSON object in a body; an empty object when there is no body.
 * @throws Problem 400, 413, 415
 */
export async function readJsonBody(req: IncomingMessage, limit: number): Promise<Record<string, unknown>> {
  const bytes = await readBody(req, limit).catch((error: unknown) => {
    throw error instanceof BodyTooLarge ? payloadTooLarge(`${limit / MEGABYTE} MB`) : error;
  });
  if (bytes.length === 0) return {};
  if (!/^application\/json\s*(;|$)/i.test(req.headers['content-type'] ?? '')) throw unsupportedMediaType();
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    throw malformedBody('The body is not valid UTF-8.');
  }
  if (nesting(text) > DEEPEST) throw malformedBody(`The body is nested more than ${DEEPEST} levels deep.`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw malformedBody('The body is not valid JSON.');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw malformedBody('The body has to be a JSON object.');
  }
  return value as Record<string, unknown>;
}

const [QUOTE, BACKSLASH] = [34, 92];

/** How deep the brackets of a JSON text go. */
export function nesting(text: string): number {
  let depth = 0;
  let deepest = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (quoted) {
      if (code === BACKSLASH) i += 1;
      else if (code === QUOTE) quoted = false;
    } else if (code === QUOTE) quoted = true;
    else if (code === 91 || code === 123) deepest = Math.max(deepest, ++depth);
    else if (code === 93 || code === 125) depth -= 1;
  }
  return deepest;
}

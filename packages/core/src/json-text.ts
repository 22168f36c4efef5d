import { randomUUID } from 'node:crypto';
import { textInPieces } from './in-pieces.ts';

/** In the place of a text while the rest is serialized. Nobody else knows it. */
const MARK = randomUUID();
/** Of the call of `stringify` in progress. */
let texts: string[] | undefined;

/** A part of a value that is JSON text already: `stringify` inserts it unchanged, without parsing it. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toJSON(): unknown {
    if (texts === undefined) return JSON.parse(this.text);
    texts.push(this.text);
    return MARK;
  }
}

/** The JSON text of a string, serialized in pieces, so that other work goes on. */
export async function jsonTextOf(value: string): Promise<JsonText> {
  const parts: string[] = [];
  await textInPieces(value, (part) => parts.push(JSON.stringify(part).slice(1, -1)));
  return new JsonText(`"${parts.join('')}"`);
}

/** JSON.stringify for a value that may contain JsonText. */
export function stringify(value: object): string {
  texts = [];
  try {
    const rest = JSON.stringify(value);
    if (texts.length === 0) return rest;
    const [first, ...others] = rest.split(`"${MARK}"`);
    return first + others.map((part, at) => texts![at] + part).join('');
  } finally {
    texts = undefined;
  }
}

import type { Socket } from 'node:net';
import { type Answer, createLineReader, MAX_LINE_BYTES, type Question } from './wire.ts';

/** The relay's side of the channel of one thread. All input is hostile. */
export interface Channel {
  /** Drops the answer if the thread has ended. Destroys the channel if the thread does not read. */
  send(answer: Answer): void;
  close(): void;
}

/** Maximum of answers that a thread has not read. */
const MAX_UNREAD_BYTES = 1024 * 1024;
const MAX_NAME = 255;

const isId = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isName = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= MAX_NAME && /^[\x21-\x7e]+$/.test(value);

/** @returns undefined for a malformed question */
export function parseQuestion(line: string): Question | undefined {
  let value: Record<string, unknown>;
  try {
    value = JSON.parse(line) as Record<string, unknown>;
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const { id, lookup, resolve, type, acknowledge, close } = value;
  if (isId(acknowledge)) return { acknowledge };
  if (isId(close)) return { close };
  if (!isId(id)) return undefined;
  if (isName(lookup)) return { id, lookup };
  if (isName(resolve) && isName(type)) return { id, resolve, type };
  return undefined;
}

/** @param mayTalk rate limit of the sandbox, which a new channel does not reset */
export function createChannel(
  socket: Socket,
  mayTalk: (now: number) => boolean,
  onQuestion: (question: Question) => void,
): Channel {
  const read = createLineReader(MAX_LINE_BYTES, (line) => {
    if (socket.destroyed) return;
    const question = mayTalk(performance.now()) ? parseQuestion(line) : undefined;
    if (question) onQuestion(question);
    else socket.destroy();
  });
  socket.on('data', (chunk: Buffer) => {
    try {
      read(chunk);
    } catch {
      socket.destroy();
    }
  });
  socket.on('end', () => socket.destroy());
  socket.resume();
  return {
    send(answer) {
      if (socket.destroyed) return;
      socket.write(`${JSON.stringify(answer)}\n`);
      if (socket.writableLength > MAX_UNREAD_BYTES) socket.destroy();
    },
    close: () => void socket.destroy(),
  };
}

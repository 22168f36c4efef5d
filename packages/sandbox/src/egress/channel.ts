import type { Socket } from 'node:net';
import type { Share } from './shares.ts';
import { type Answer, createLineReader, MAX_LINE_BYTES, type Question } from './wire.ts';

/** The relay's side of the channel of one thread. All input is hostile. */
export interface Channel {
  /** Drops the answer if the thread has ended. Destroys the channel if the sandbox does not read. */
  send(answer: Answer): void;
  close(): void;
}

/** Answers that were written but not read. */
export interface Unread {
  bytes: number;
}

/** Maximum of unread answers of a sandbox, besides one more answer. */
const MAX_UNREAD_BYTES = 128 * 1024;
const MAX_NAME = 255;

const isId = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isName = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= MAX_NAME && /^[\x21-\x7e]+$/.test(value);

/** @returns undefined for a malformed question */
function parseQuestion(line: string): Question | undefined {
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

/**
 * @param mayTalk rate limit of the sandbox, which a new channel does not reset
 * @param unread of all channels of the sandbox
 * @param hold share of the owner, beyond which a sandbox has at most one unread answer
 */
export function createChannel(
  socket: Socket,
  mayTalk: (now: number) => boolean,
  unread: Unread,
  hold: Share['unsent'],
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
      const text = `${JSON.stringify(answer)}\n`;
      const release = hold(text.length);
      if (unread.bytes > MAX_UNREAD_BYTES || (unread.bytes > 0 && !release)) {
        release?.();
        socket.destroy();
        return;
      }
      unread.bytes += text.length;
      socket.write(text, () => {
        unread.bytes -= text.length;
        release?.();
      });
    },
    close: () => void socket.destroy(),
  };
}

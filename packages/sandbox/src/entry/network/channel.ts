import net from 'node:net';
import { threadId } from 'node:worker_threads';
import {
  type Answer,
  createLineReader,
  encodePreamble,
  OPERATION,
  type Question,
  type WireError,
} from '../../egress/wire.ts';

/**
 * The channel of this thread to the relay. Not a security boundary: without it code has no network at all, so it need
 * not resist user code in the same thread.
 */
export interface Channel {
  /** Whether it is connected to the relay. */
  readonly isOpen: boolean;
  /** @throws Error if the relay cannot be reached within seconds */
  open(): Promise<void>;
  /** An unused number. */
  nextId(): number;
  /** Passes on answers with this id, and ECONNRESET if the channel breaks. Keeps the thread alive until `settled`. */
  listen(id: number, onAnswer: (answer: Answer) => void): void;
  /** The id no longer keeps the thread alive. */
  settled(id: number): void;
  forget(id: number): void;
  send(question: Question): void;
}

type Connect = (this: net.Socket, options: { path: string }) => net.Socket;

const RETRY_MS = 50;
const OPEN_MS = 5_000;
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
const BROKEN: WireError = {
  code: 'ECONNRESET',
  syscall: 'read',
  message: 'read ECONNRESET: the network relay of the platform was restarted',
};

export function createChannel(path: string): Channel {
  const connect = net.Socket.prototype.connect;
  const listeners = new Map<number, (answer: Answer) => void>();
  const outstanding = new Set<number>();
  let last = 0;
  let socket: net.Socket | undefined;
  let opening: Promise<void> | undefined;

  function keepAlive(): void {
    if (outstanding.size > 0) socket?.ref();
    else socket?.unref();
  }

  const read = () =>
    createLineReader(MAX_ANSWER_BYTES, (line) => {
      const answer = JSON.parse(line) as Answer;
      listeners.get(answer.id)?.(answer);
    });

  function onLost(): void {
    socket = undefined;
    opening = undefined;
    for (const [id, listener] of [...listeners]) {
      listener(outstanding.has(id) ? { id, failed: BROKEN } : { id, reset: BROKEN });
    }
  }

  const attempt = (): Promise<net.Socket> =>
    new Promise((resolve, reject) => {
      const opened = new net.Socket();
      opened.once('error', reject);
      (connect as Connect).call(opened, { path });
      opened.once('connect', () => {
        opened.off('error', reject);
        opened.on('error', () => {});
        for (const name of ['end', 'close']) opened.on(name, () => socket === opened && onLost());
        opened.on('data', read());
        opened.write(
          encodePreamble({ operation: OPERATION.control, channel: threadId, id: 0, port: 0, host: '' }),
        );
        resolve(opened);
      });
    });

  async function connectWithRetries(): Promise<void> {
    const end = performance.now() + OPEN_MS;
    for (;;) {
      try {
        socket = await attempt();
        keepAlive();
        return;
      } catch (error) {
        if (performance.now() > end) {
          opening = undefined;
          throw error;
        }
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  return {
    get isOpen() {
      return socket !== undefined;
    },
    open() {
      opening ??= connectWithRetries();
      return opening;
    },
    nextId() {
      last += 1;
      return last;
    },
    listen(id, onAnswer) {
      listeners.set(id, onAnswer);
      outstanding.add(id);
      keepAlive();
    },
    settled(id) {
      outstanding.delete(id);
      keepAlive();
    },
    forget(id) {
      listeners.delete(id);
      outstanding.delete(id);
      keepAlive();
    },
    send(question) {
      socket?.write(`${JSON.stringify(question)}\n`);
    },
  };
}

/** Sends a question about a name to the relay. @returns its answer, which may be an error */
export async function ask(channel: Channel, question: Question & { id: number }): Promise<Answer> {
  await channel.open();
  return new Promise((resolve) => {
    channel.listen(question.id, (answer) => {
      channel.forget(question.id);
      resolve(answer);
    });
    channel.send(question);
  });
}

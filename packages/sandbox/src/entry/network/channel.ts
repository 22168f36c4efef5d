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
 * The channel of this thread to the relay of the runner. Part of a convenience: without it there is no network at all,
 * so that nothing here has to withstand the code beside it.
 */
export interface Channel {
  /** There is a connection to the relay. */
  readonly isOpen: boolean;
  /** @throws Error when the relay cannot be reached for several seconds */
  open(): Promise<void>;
  /** A number that was not used before. */
  nextId(): number;
  /** Hears the answers with this id, and ECONNRESET when the channel breaks. Keeps the thread alive until `settled`. */
  listen(id: number, onAnswer: (answer: Answer) => void): void;
  /** What is outstanding for this id keeps the thread alive no longer. */
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

  function lost(): void {
    socket = undefined;
    opening = undefined;
    for (const [id, listener] of [...listeners]) {
      listener(outstanding.has(id) ? { id, failed: BROKEN } : { id, reset: BROKEN });
    }
  }

  /** One attempt to connect. */
  const attempt = (): Promise<net.Socket> =>
    new Promise((resolve, reject) => {
      const made = new net.Socket();
      made.once('error', reject);
      (connect as Connect).call(made, { path });
      made.once('connect', () => {
        made.off('error', reject);
        made.on('error', () => {});
        for (const name of ['end', 'close']) made.on(name, () => socket === made && lost());
        made.on('data', read());
        made.write(
          encodePreamble({ operation: OPERATION.control, channel: threadId, id: 0, port: 0, host: '' }),
        );
        resolve(made);
      });
    });

  async function connectAgain(): Promise<void> {
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
      opening ??= connectAgain();
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

/** Asks the relay for names. @throws the error of the relay, in Node's shape */
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

import { Unavailable } from '@wellspring/core/unavailable';

/**
 * Port `call`: a question that is answered at most once, by whoever serves the address. Messages and answers are
 * JSON values and are serialised in every adapter. A Problem thrown by the server is thrown at the caller; anything
 * else becomes a CallFailed without its details.
 */
export interface Call {
  /** @throws Problem, CallFailed (the server failed, or nobody answered before the deadline) */
  request(address: string, message: unknown, options: CallOptions): Promise<unknown>;
  /** Serves an address until the signal is aborted. `key` is that of the request. */
  serve(
    address: string,
    handler: (message: never, key: string | undefined) => Promise<unknown>,
    signal: AbortSignal,
  ): void;
  /** An address of one's own for a single message that some job will send. */
  open(): Mailbox;
  /** Sends to a mailbox; lost without a trace when nobody waits any more. */
  reply(address: string, message: unknown): void;
  ping(): Promise<void>;
  close(): Promise<void>;
}

export interface CallOptions {
  /** Goes to the server that owns this key, when the address is served per key. */
  key?: string;
  deadlineMs: number;
}

export interface Mailbox {
  address: string;
  /** The message, or undefined when the time is over first. */
  receive(timeoutMs: number): Promise<unknown>;
  close(): void;
}

export class CallFailed extends Unavailable {
  override readonly name = 'CallFailed';
}

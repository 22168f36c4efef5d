import { Unavailable } from '@wellspring/core/unavailable';

/**
 * Port `call`: requests between processes, executed at most once by a server of the address. Every adapter serializes
 * messages and replies as JSON. A Problem thrown by the server is thrown at the caller; any other error becomes a
 * CallFailed without details.
 */
export interface Call {
  /** @throws Problem, CallFailed (the server failed, or no reply before the deadline) */
  request(address: string, message: unknown, options: CallOptions): Promise<unknown>;
  /** Serves an address until the signal is aborted. `key`: see CallOptions. */
  serve(address: string, handler: Handler, signal: AbortSignal): void;
  /** Opens an address for a single reply, e.g. that of a run. */
  openReplyAddress(): ReplyAddress;
  /** Sends to a reply address; ignored when it is closed. */
  reply(address: string, message: unknown): void;
  ping(): Promise<void>;
  close(): Promise<void>;
}

export type Handler = (message: never, key: string | undefined) => Promise<unknown>;

export interface CallOptions {
  /** The request goes to the process that owns this ordering key, if the address is served per key. */
  key?: string;
  deadlineMs: number;
  /** After this time without a process that serves the address, the request fails; default: at the deadline. */
  reachMs?: number;
}

export interface ReplyAddress {
  address: string;
  /** The reply; undefined after the timeout or `close`. */
  receive(timeoutMs: number): Promise<unknown>;
  close(): void;
}

export class CallFailed extends Unavailable {
  override readonly name = 'CallFailed';
}

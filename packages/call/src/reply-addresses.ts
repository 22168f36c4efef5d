import { newSecret } from '@wellspring/core/ids';
import { withTimeout } from '@wellspring/core/with-timeout';
import type { ReplyAddress } from './port.ts';

/** The open reply addresses of one process, by id. */
export interface ReplyAddresses {
  open(): { id: string } & Omit<ReplyAddress, 'address'>;
  /** Ignored when the address is closed. */
  deliver(id: string, message: unknown): void;
  /** Ends all waits. */
  close(): void;
}

export function createReplyAddresses(): ReplyAddresses {
  const addresses = new Map<string, (message: unknown) => void>();
  return {
    open() {
      const id = newSecret();
      const arrived = Promise.withResolvers<unknown>();
      addresses.set(id, arrived.resolve);
      return {
        id,
        receive: (timeoutMs) => withTimeout(arrived.promise, timeoutMs),
        close() {
          addresses.delete(id);
          // Ends a pending receive.
          arrived.resolve(undefined);
        },
      };
    },
    deliver: (id, message) => addresses.get(id)?.(message),
    close() {
      for (const deliver of addresses.values()) deliver(undefined);
      addresses.clear();
    },
  };
}

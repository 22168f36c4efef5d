import { newSecret } from '@wellspring/core/ids';
import type { Log } from '@wellspring/core/log';
import { Problem } from '@wellspring/core/problem';
import { withTimeout } from '@wellspring/core/with-timeout';
import { type Call, CallFailed } from '../port.ts';

type Handler = (message: never, key: string | undefined) => Promise<unknown>;

/** A copy of the value as JSON would transmit it. Texts are shared, since the code of a component may have megabytes. */
function jsonCopy(value: unknown): unknown {
  if (typeof value === 'function') return undefined;
  if (typeof value !== 'object' || value === null) return value;
  if ('toJSON' in value && typeof value.toJSON === 'function') return jsonCopy(value.toJSON());
  if (Array.isArray(value)) return value.map((item) => jsonCopy(item) ?? null);
  const fields = Object.entries(value).map(([name, field]) => [name, jsonCopy(field)]);
  return Object.fromEntries(fields.filter(([, field]) => field !== undefined));
}

/** Calls within one process. */
export function createEmbeddedCall({ log }: { log: Log }): Call {
  const servers = new Map<string, Handler>();
  const waiting = new Map<string, Set<() => void>>();
  const replyAddresses = new Map<string, (message: unknown) => void>();

  /** Waits for a server of the address until the deadline. */
  function findServer(address: string, deadline: AbortSignal): Promise<Handler | undefined> {
    const found = servers.get(address);
    if (found || deadline.aborted) return Promise.resolve(found);
    return new Promise((resolve) => {
      const arrivals = waiting.get(address) ?? new Set();
      waiting.set(address, arrivals);
      const done = () => {
        arrivals.delete(done);
        if (arrivals.size === 0) waiting.delete(address);
        deadline.removeEventListener('abort', done);
        resolve(servers.get(address));
      };
      arrivals.add(done);
      deadline.addEventListener('abort', done, { once: true });
    });
  }

  const wake = (arrivals: Iterable<() => void> = []) => {
    for (const arrived of [...arrivals]) arrived();
  };

  return {
    async request(address, message, { key, deadlineMs }) {
      const deadline = new AbortController();
      const timer = setTimeout(() => deadline.abort(), deadlineMs);
      try {
        const sent = jsonCopy(message);
        const handler = await findServer(address, deadline.signal);
        if (!handler) throw new CallFailed(`The request to ${address} failed: no process served it.`);
        const overdue = new Promise<never>((_, reject) => {
          deadline.signal.addEventListener('abort', () =>
            reject(new CallFailed(`The server of ${address} did not reply in time.`)),
          );
        });
        return jsonCopy(await Promise.race([handler(sent as never, key), overdue]));
      } catch (error) {
        if (error instanceof Problem || error instanceof CallFailed) throw error;
        log.error({ address, error: error instanceof Error ? error.stack : String(error) }, 'call.failed');
        throw new CallFailed(`The server of ${address} failed.`);
      } finally {
        clearTimeout(timer);
      }
    },
    serve(address, handler, signal) {
      if (signal.aborted) return;
      servers.set(address, handler);
      wake(waiting.get(address));
      signal.addEventListener('abort', () => servers.get(address) === handler && servers.delete(address), {
        once: true,
      });
    },
    openReplyAddress() {
      const address = newSecret();
      const arrived = Promise.withResolvers<unknown>();
      replyAddresses.set(address, arrived.resolve);
      return {
        address,
        receive: (timeoutMs) => withTimeout(arrived.promise, timeoutMs),
        close() {
          replyAddresses.delete(address);
          // Ends a pending receive.
          arrived.resolve(undefined);
        },
      };
    },
    reply(address, message) {
      replyAddresses.get(address)?.(jsonCopy(message));
    },
    ping: async () => {},
    close: async () => {
      servers.clear();
      for (const arrivals of [...waiting.values()]) wake(arrivals);
      for (const deliver of replyAddresses.values()) deliver(undefined);
      replyAddresses.clear();
    },
  };
}

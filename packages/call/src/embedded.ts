import { newSecret } from '@wellspring/core/ids';
import type { Log } from '@wellspring/core/log';
import { Problem } from '@wellspring/core/problem';
import { type Call, CallFailed } from './port.ts';

type Serve = (message: never, key: string | undefined) => Promise<unknown>;

/** A value as it is after a journey over the wire. */
const travel = (value: unknown): unknown =>
  value === undefined ? undefined : JSON.parse(JSON.stringify(value));

/** Within one process; messages and answers are serialised as they would be between processes. */
export function createEmbeddedCall({ log }: { log: Log }): Call {
  const servers = new Map<string, Serve>();
  const waiting = new Map<string, Set<() => void>>();
  const mailboxes = new Map<string, (message: unknown) => void>();

  /** Whoever serves the address, now or before the deadline. */
  function server(address: string, deadline: AbortSignal): Promise<Serve | undefined> {
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
        const sent = travel(message);
        const serve = await server(address, deadline.signal);
        if (!serve) throw new CallFailed(`nobody serves ${address}`);
        const overdue = new Promise<never>((_, reject) => {
          deadline.signal.addEventListener('abort', () =>
            reject(new CallFailed(`${address} did not answer in time`)),
          );
        });
        return travel(await Promise.race([serve(sent as never, key), overdue]));
      } catch (error) {
        if (error instanceof Problem || error instanceof CallFailed) throw error;
        log.error({ address, error: error instanceof Error ? error.stack : String(error) }, 'call.failed');
        throw new CallFailed(`${address} failed`);
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
    open() {
      const address = newSecret();
      let deliver: (message: unknown) => void = () => {};
      const arrived = new Promise<unknown>((resolve) => {
        deliver = resolve;
      });
      mailboxes.set(address, deliver);
      return {
        address,
        receive(timeoutMs) {
          return new Promise((resolve) => {
            const timer = setTimeout(() => resolve(undefined), timeoutMs);
            arrived.then((message) => {
              clearTimeout(timer);
              resolve(message);
            });
          });
        },
        close() {
          mailboxes.delete(address);
          // Ends a receive that is still waiting.
          deliver(undefined);
        },
      };
    },
    reply(address, message) {
      mailboxes.get(address)?.(travel(message));
    },
    ping: async () => {},
    close: async () => {
      servers.clear();
      for (const arrivals of [...waiting.values()]) wake(arrivals);
      for (const deliver of mailboxes.values()) deliver(undefined);
      mailboxes.clear();
    },
  };
}

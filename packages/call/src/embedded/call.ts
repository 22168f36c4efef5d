import { setTimeout as pause } from 'node:timers/promises';
import type { Log } from '@wellspring/core/log';
import { Problem } from '@wellspring/core/problem';
import { withTimeout } from '@wellspring/core/with-timeout';
import { type Call, CallFailed, type Handler } from '../port.ts';
import { createReplyAddresses } from '../reply-addresses.ts';

/** A copy of the value as JSON would transmit it. Texts are shared, since the code of a component may have megabytes. */
function jsonCopy(value: unknown): unknown {
  if (typeof value === 'function') return undefined;
  if (typeof value !== 'object' || value === null) return value;
  if ('toJSON' in value && typeof value.toJSON === 'function') return jsonCopy(value.toJSON());
  if (Array.isArray(value)) return value.map((item) => jsonCopy(item) ?? null);
  const fields = Object.entries(value).map(([name, field]) => [name, jsonCopy(field)]);
  return Object.fromEntries(fields.filter(([, field]) => field !== undefined));
}

const POLL_INTERVAL_MS = 50;

/** Calls within one process. */
export function createEmbeddedCall({ log }: { log: Log }): Call {
  const servers = new Map<string, Handler>();
  const replyAddresses = createReplyAddresses();
  let isClosed = false;

  /** Waits until the address is served: the services of a process start one after the other. */
  async function findServer(address: string, remaining: () => number): Promise<Handler> {
    while (remaining() > 0 && !isClosed) {
      const found = servers.get(address);
      if (found) return found;
      await pause(Math.max(0, Math.min(POLL_INTERVAL_MS, remaining())));
    }
    throw new CallFailed(`The request to ${address} failed: no process served it.`);
  }

  return {
    async request(address, message, { key, deadlineMs, reachMs = deadlineMs }) {
      const began = performance.now();
      const remaining = (ms = deadlineMs) => began + ms - performance.now();
      try {
        const sent = jsonCopy(message);
        const handler = await findServer(address, () => remaining(Math.min(reachMs, deadlineMs)));
        const answer = await withTimeout(handler(sent as never, key), remaining(), () => {
          throw new CallFailed(`The server of ${address} did not reply in time.`);
        });
        return jsonCopy(answer);
      } catch (error) {
        if (error instanceof Problem || error instanceof CallFailed) throw error;
        log.error({ address, error: error instanceof Error ? error.stack : String(error) }, 'call.failed');
        throw new CallFailed(`The server of ${address} failed.`);
      }
    },
    serve(address, handler, signal) {
      if (signal.aborted) return;
      servers.set(address, handler);
      signal.addEventListener('abort', () => servers.get(address) === handler && servers.delete(address), {
        once: true,
      });
    },
    openReplyAddress() {
      const { id, ...opened } = replyAddresses.open();
      return { address: id, ...opened };
    },
    reply: (address, message) => replyAddresses.deliver(address, jsonCopy(message)),
    ping: async () => {},
    close: async () => {
      isClosed = true;
      servers.clear();
      replyAddresses.close();
    },
  };
}

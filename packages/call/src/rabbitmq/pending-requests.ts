import { newSecret } from '@wellspring/core/ids';
import { CallFailed } from '../port.ts';
import type { Type } from './wire.ts';

/** Interval of probes to the servers of pending requests. */
const PROBE_INTERVAL_MS = 1_000;
/** Without a reply to probes for this long, the server is frozen, or its queue is lost with a node. */
const PROBE_TIMEOUT_MS = 5_000;

interface PendingRequest {
  server: string;
  since: number;
  /** performance.now() of the last sign of life. */
  heardAt: number;
  resolve(answer: Buffer | undefined): void;
  fail(reason: string): void;
}

type Send = (to: string, type: Type, correlationId: string, content?: Buffer, expiration?: number) => void;

/** Requests that wait for their answer, and probes that find out whether their servers are alive. */
export function createPendingRequests(send: Send) {
  const waiting = new Map<string, PendingRequest>();

  function probe(): void {
    const now = performance.now();
    for (const [id, { server, since, heardAt, fail }] of waiting) {
      if (now - heardAt > PROBE_TIMEOUT_MS) fail('does not answer');
      else if (now - since >= PROBE_INTERVAL_MS) send(server, 'probe', id);
    }
  }
  /** Only while requests wait: an idle process sleeps. */
  let prober: NodeJS.Timeout | undefined;

  return {
    /** Sends a request once. @returns the answer; undefined: the request was not executed */
    ask(server: string, address: string, content: Buffer, timeoutMs: number): Promise<Buffer | undefined> {
      const id = newSecret();
      const answered = Promise.withResolvers<Buffer | undefined>();
      const fail = (reason: string) => answered.reject(new CallFailed(`The server of ${address} ${reason}.`));
      const timer = setTimeout(fail, timeoutMs, 'did not reply in time');
      const since = performance.now();
      prober ??= setInterval(probe, PROBE_INTERVAL_MS).unref();
      waiting.set(id, { server, since, heardAt: since, resolve: answered.resolve, fail });
      // A process that was cut off must not execute what its caller gave up.
      send(server, 'request', id, content, Math.ceil(timeoutMs));
      return answered.promise.finally(() => {
        waiting.delete(id);
        if (waiting.size === 0) {
          clearInterval(prober);
          prober = undefined;
        }
        clearTimeout(timer);
      });
    },
    /** A message about a request has arrived. */
    received(type: Type, id: string, content: Buffer): void {
      const one = waiting.get(id);
      if (!one) return;
      one.heardAt = performance.now();
      if (type === 'answer') one.resolve(content);
      else if (type === 'absent') one.resolve(undefined);
      else if (type === 'unknown') one.fail('lost its connection before it replied');
    },
    /** The request, or a probe, had no receiver. */
    returned(type: Type, id: string): void {
      if (type === 'request') waiting.get(id)?.resolve(undefined);
      else waiting.get(id)?.fail('is gone');
    },
    /** The channel was lost, and with it the queue that answers arrive in. */
    lost(): void {
      for (const { fail } of waiting.values()) fail('cannot reply: the connection to RabbitMQ was lost');
    },
    close(): void {
      for (const { fail } of waiting.values()) fail('cannot reply: the connection was closed');
    },
  };
}

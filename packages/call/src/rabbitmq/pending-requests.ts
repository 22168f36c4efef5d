import type { Options } from '@wellspring/amqp/channel';
import { newSecret } from '@wellspring/core/ids';
import { CallFailed } from '../port.ts';
import { PROBE, REPLY_TO } from './wire.ts';

/** Interval of probes to the servers of pending requests. */
const PROBE_INTERVAL_MS = 1_000;
/** Without a reply to probes for this long, the server's queue is lost with its node. */
const PROBE_TIMEOUT_MS = 5_000;

interface PendingRequest {
  queue: string;
  since: number;
  /** performance.now() of the last reply to a probe. */
  heardAt: number;
  settle(how: Settlement): void;
}

type Settlement = { content: Buffer } | 'returned' | 'lost';

/**
 * Requests that wait for their reply, and probes that find out whether their servers are alive.
 * @param unroute called for a queue that no longer exists
 */
export function createPendingRequests(
  send: (queue: string, content: Buffer, options: Options.Publish) => void,
  unroute: (route: string, queue: string) => void,
) {
  const waiting = new Map<string, PendingRequest>();

  const prober = setInterval(() => {
    const now = performance.now();
    for (const [correlationId, { queue, since, heardAt, settle }] of waiting) {
      if (now - since < PROBE_INTERVAL_MS) continue;
      if (now - heardAt > PROBE_TIMEOUT_MS) settle('returned');
      else send(queue, Buffer.alloc(0), { mandatory: true, correlationId, replyTo: REPLY_TO, type: PROBE });
    }
  }, PROBE_INTERVAL_MS);
  prober.unref();

  return {
    settle: (correlationId: string, how: Settlement) => waiting.get(correlationId)?.settle(how),

    /** The server replied to a probe: it is working on the request. */
    heard(correlationId: string): void {
      const one = waiting.get(correlationId);
      if (one) one.heardAt = performance.now();
    },

    /** Replies to the lost channel are lost. */
    lost(): void {
      for (const one of [...waiting.values()]) one.settle('lost');
    },

    /** Sends a request once. @returns the reply; undefined: nobody received it */
    ask(
      { route, queue }: { route: string; queue: string },
      address: string,
      content: Buffer,
      deadline: AbortSignal,
    ): Promise<Buffer | undefined> {
      const correlationId = newSecret();
      return new Promise<Buffer | undefined>((resolve, reject) => {
        const since = performance.now();
        const end = () => {
          waiting.delete(correlationId);
          deadline.removeEventListener('abort', late);
        };
        const late = () => {
          end();
          reject(new CallFailed(`The server of ${address} did not reply in time.`));
        };
        if (deadline.aborted) return late();
        deadline.addEventListener('abort', late, { once: true });
        waiting.set(correlationId, {
          queue,
          since,
          heardAt: since,
          settle(how) {
            end();
            if (how === 'returned') unroute(route, queue);
            if (how === 'lost')
              reject(new CallFailed(`A connection to RabbitMQ was lost before ${address} replied.`));
            // A returned probe: the server that received the request is gone.
            else if (how === 'returned' && performance.now() - since >= PROBE_INTERVAL_MS) {
              reject(new CallFailed(`The server of ${address} is gone.`));
            } else resolve(how === 'returned' ? undefined : how.content);
          },
        });
        send(queue, content, { mandatory: true, correlationId, replyTo: REPLY_TO });
      });
    },

    close: () => clearInterval(prober),
  };
}

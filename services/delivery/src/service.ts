import { createObjectWriter } from '@wellspring/blob/object-writer';
import { createEgress, type Resolve } from '@wellspring/http/egress';
import { createFairAdmission } from '@wellspring/queue/fair-admission';
import type { Deps } from '@wellspring/runtime/deps';
import type { Service } from '@wellspring/runtime/service';
import { type Attempts, createAttempts } from './attempts.ts';
import { createClaimLoop } from './claims.ts';
import { clockSetBackWorker } from './clock-set-back.ts';
import { createDelayedEvents } from './delayed.ts';
import { createEmittedHandler } from './emitted.ts';
import { createFanOut } from './fan-out.ts';
import { createFirstAttemptTimeout, type FirstAttemptTimeout } from './first-attempt-timeout.ts';
import { createWebhookHealth } from './health.ts';
import { createSigningKeys } from './keys.ts';
import { ATTEMPT_TIMEOUT_MS } from './lease.ts';
import { createListeners } from './listeners.ts';
import { createPermits } from './permits.ts';
import { createPost } from './post.ts';
import { createEmailSend } from './sends/email.ts';
import { createHttpSend } from './sends/http.ts';
import { createS3Send } from './sends/s3.ts';
import { createSender } from './sends/sends.ts';

/** As in the hosted original. */
const SEND_TIMEOUT_MS = 5_000;
const LIMITS = { perWebhook: 8, total: 1_024, probationPerOwner: 64 };
/** Batches of messages that are fanned out concurrently, one per emitter, and messages per batch. */
const FAN_OUTS = 1_024;
const BATCH_SIZE = 64;

type DeliveryDeps = Pick<
  Deps,
  | 'store'
  | 'queue'
  | 'pubsub'
  | 'call'
  | 'buckets'
  | 'memory'
  | 'clock'
  | 'log'
  | 'metrics'
  | 'seal'
  | 'config'
>;

/** For tests. */
export interface DeliveryOptions {
  /** Default: by the clock. */
  timeout?: FirstAttemptTimeout;
  /** Default: `dns.lookup`. */
  resolve?: Resolve;
}

/**
 * Delivers every committed event to its listeners at least once: runs for sources, signed requests for webhooks. A crash
 * repeats each attempt in progress at most once, with the same `webhook-id`. Also makes the requests of workflows
 * (`$.send`), without retries.
 */
export function createDeliveryService(deps: DeliveryDeps & DeliveryOptions): Service {
  const { timeout = createFirstAttemptTimeout(deps.clock), resolve } = deps;
  const egress = createEgress({
    allowNetworks: deps.config.allowNetworks,
    // Webhooks of several owners may share an address: a hanging one must not use up the connections of the others.
    connections: LIMITS.total,
    resolve,
  });
  const permits = createPermits(LIMITS, deps.clock.now, () => claims.wake());
  const post = createPost(egress, ATTEMPT_TIMEOUT_MS);
  const { smtpUrl, sendS3Url } = deps.config;
  const objects = sendS3Url === null ? undefined : createObjectWriter(sendS3Url);
  const attempts: Attempts = createAttempts({
    ...deps,
    permits,
    timeout,
    post,
    sender: createSender(deps, {
      http: createHttpSend(createPost(egress, SEND_TIMEOUT_MS), egress.checkUrl),
      email: createEmailSend(deps.store, smtpUrl, ATTEMPT_TIMEOUT_MS),
      s3: createS3Send(objects, ATTEMPT_TIMEOUT_MS),
    }),
    keys: createSigningKeys(deps.seal),
    health: createWebhookHealth(deps),
    wake: (dueAt) => claims.wake(dueAt),
  });
  const delayed = createDelayedEvents(deps);
  const claims = createClaimLoop({ ...deps, permits, attempts });
  return {
    name: 'delivery',
    workers: [
      {
        name: 'fan-out',
        async run(signal) {
          const listeners = createListeners(deps);
          const fanOut = createFanOut({ ...deps, attempts, listeners, delayed, signal });
          await deps.queue.consume('emitted', createEmittedHandler({ ...deps, signal }, fanOut), {
            admit: createFairAdmission(deps.store, FAN_OUTS).admit,
            batch: BATCH_SIZE,
            signal,
          });
          await attempts.drain();
        },
      },
      { name: 'claims', run: (signal) => claims.run(signal) },
      clockSetBackWorker(deps, claims.wake),
      delayed.worker,
    ],
    async dispose() {
      objects?.close();
      await egress.close();
    },
  };
}

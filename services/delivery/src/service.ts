import type { DeliveryMessage } from '@wellspring/contract/messages';
import { createEgress } from '@wellspring/http/egress';
import type { Handler } from '@wellspring/queue/port';
import type { Deps } from '@wellspring/runtime/deps';
import type { Service } from '@wellspring/runtime/service';
import { deliveries } from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';
import { type Attempts, createAttempts, type Held } from './attempts.ts';
import { createClaimLoop } from './claim.ts';
import { createWebhookHealth } from './disable.ts';
import { createFanOut } from './fan-out.ts';
import { createHandOver, type HandOver } from './hand-over.ts';
import { createSigningKeys } from './keys.ts';
import { ATTEMPT_MS } from './lease.ts';
import { createPost } from './post.ts';
import { readMessage } from './read-message.ts';
import { createSlots } from './slots.ts';

const LIMITS = {
  perWebhook: 8,
  total: 1_024,
  bytes: 128 * 1024 * 1024,
  line: 2_048,
  lines: 8_192,
};
/** Emitters whose events are fanned out at a time, and runs of one of them taken together. */
const FAN_OUTS = 64;
const RUNS_TOGETHER = 64;
/** More than can be attempted or wait in memory, so that the rest can be parked. */
const HANDED_OUT = 12_288;

type DeliveryDeps = Pick<
  Deps,
  'store' | 'queue' | 'pubsub' | 'clock' | 'log' | 'metrics' | 'seal' | 'config'
>;

/**
 * Gives every committed event to whoever listens: runs for sources, signed requests for webhooks. At least once; an
 * attempt is repeated only under its lease, so a crash leaves one duplicate at most of each delivery under way.
 */
export function createDeliveryService(deps: DeliveryDeps): Service {
  const { queue, store } = deps;
  const egress = createEgress({
    allowNetworks: deps.config.allowNetworks,
    connections: LIMITS.perWebhook * 8,
  });
  const handOver = createHandOver();
  const slots = createSlots<Held>(LIMITS);
  const attempts: Attempts = createAttempts({
    ...deps,
    slots,
    post: createPost(egress.agent, ATTEMPT_MS),
    keys: createSigningKeys(deps.seal),
    health: createWebhookHealth(deps),
    wake: () => claims.wake(),
  });
  const claims = createClaimLoop({ ...deps, slots, attempts });
  return {
    name: 'delivery',
    workers: [
      {
        name: 'fan-out',
        run: (signal) =>
          queue.consume('emitted', createFanOut({ ...deps, handOver }), {
            concurrency: FAN_OUTS,
            batch: RUNS_TOGETHER,
            signal,
          }),
      },
      {
        name: 'first-attempts',
        run: (signal) =>
          queue.consume('deliveries', createFirstAttempts(store, attempts, handOver), {
            concurrency: HANDED_OUT,
            signal,
          }),
      },
      { name: 'claims', run: (signal) => claims.run(signal) },
    ],
    dispose: () => egress.close(),
  };
}

/**
 * Handles the queue `deliveries`. The message carries the lease of the row, so no write is needed to hold it; one
 * that comes too late, or again, finds another `due_at` and is dropped: the claim loop has the row.
 */
export function createFirstAttempts(store: Store, attempts: Attempts, handOver: HandOver): Handler {
  const rows = store.collection(deliveries);
  return async ([job]) => {
    const message = readMessage<DeliveryMessage>(job, 'delivery', 1);
    const row = handOver.take(message.delivery_id, message.lease) ?? (await rows.get(message.delivery_id));
    if (row?.status !== 'pending' || row.due_at !== message.lease) return;
    await attempts.accept(row, message.lease);
  };
}

import { createEgress } from '@wellspring/http/egress';
import type { Deps } from '@wellspring/runtime/deps';
import type { Service } from '@wellspring/runtime/service';
import { type Attempts, createAttempts, type Held } from './attempts.ts';
import { createClaimLoop } from './claim.ts';
import { createWebhookHealth } from './disable.ts';
import { createFanOut } from './fan-out.ts';
import { createSigningKeys } from './keys.ts';
import { ATTEMPT_MS } from './lease.ts';
import { createPost } from './post.ts';
import { createRecentWebhooks } from './recent-webhooks.ts';
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

type DeliveryDeps = Pick<
  Deps,
  'store' | 'queue' | 'pubsub' | 'clock' | 'log' | 'metrics' | 'seal' | 'config'
>;

/**
 * Gives every committed event to whoever listens: runs for sources, signed requests for webhooks. At least once; an
 * attempt is repeated only under its lease, so a crash leaves one duplicate at most of each delivery under way.
 */
export function createDeliveryService(deps: DeliveryDeps): Service {
  const egress = createEgress({
    allowNetworks: deps.config.allowNetworks,
    connections: LIMITS.perWebhook * 8,
  });
  const slots = createSlots<Held>(LIMITS);
  const recent = createRecentWebhooks(deps);
  const attempts: Attempts = createAttempts({
    ...deps,
    slots,
    recent,
    post: createPost(egress.agent, ATTEMPT_MS),
    keys: createSigningKeys(deps.seal),
    health: createWebhookHealth(deps),
    wake: () => claims.wake(),
  });
  const claims = createClaimLoop({ ...deps, slots, attempts, alone: deps.config.mode === 'embedded' });
  return {
    name: 'delivery',
    workers: [
      {
        name: 'fan-out',
        async run(signal) {
          await deps.queue.consume('emitted', createFanOut({ ...deps, attempts, recent }), {
            concurrency: FAN_OUTS,
            batch: RUNS_TOGETHER,
            signal,
          });
          await attempts.drain();
        },
      },
      { name: 'claims', run: (signal) => claims.run(signal) },
    ],
    dispose: () => egress.close(),
  };
}

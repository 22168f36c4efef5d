import type { Blob } from '@wellspring/blob/port';
import type { Call } from '@wellspring/call/port';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Memory } from '@wellspring/core/memory';
import type { Metrics } from '@wellspring/core/metrics';
import type { Seal } from '@wellspring/core/seal';
import type { TokenBuckets } from '@wellspring/core/token-buckets';
import type { PubSub } from '@wellspring/pubsub/port';
import type { Queue } from '@wellspring/queue/port';
import type { Store } from '@wellspring/store/port';
import type { Config } from './config.ts';

/** Dependencies of services. A service names those it needs: `createXService(deps: Pick<Deps, 'store' | …>)`. */
export interface Deps {
  config: Config;
  store: Store;
  queue: Queue;
  pubsub: PubSub;
  call: Call;
  blob: Blob;
  /** For rate limits, shared by all processes. */
  buckets: TokenBuckets;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  /** Limits of what this process holds. */
  memory: Memory;
  seal: Seal;
}

/** One adapter for each port. */
export type Ports = Pick<Deps, 'store' | 'queue' | 'pubsub' | 'call' | 'blob' | 'buckets'> & {
  close(): Promise<void>;
};

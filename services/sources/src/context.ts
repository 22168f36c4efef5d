import type { Configurator } from '@wellspring/runtime/configure';
import type { Deps } from '@wellspring/runtime/deps';
import type { Quotas } from '@wellspring/runtime/quotas';
import type { Attempts } from './attempts.ts';
import type { Interfaces } from './interfaces.ts';
import type { KeyedQueue } from './one-at-a-time.ts';
import type { PresentSource } from './present.ts';

export type SourcesDeps = Pick<
  Deps,
  'store' | 'queue' | 'pubsub' | 'call' | 'clock' | 'log' | 'seal' | 'config'
>;

/** Shared by the operations of this service. */
export interface SourcesContext {
  deps: SourcesDeps;
  interfaces: Interfaces;
  presentSource: PresentSource;
  /** See runtime/remove-emitter. */
  removeEmitter(id: string): Promise<void>;
  /** Serializes operations that change a source. */
  oneAtATime: KeyedQueue;
  attempts: Attempts;
  configurator: Pick<Configurator, 'deploy'>;
  quotas: Pick<Quotas, 'check'>;
}

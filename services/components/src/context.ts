import type { Deps } from '@wellspring/runtime/deps';
import type { FetchCode } from './fetch-code.ts';
import type { Library } from './save.ts';

export type ComponentsDeps = Pick<Deps, 'store' | 'call' | 'clock' | 'config' | 'memory' | 'seal'>;

/** Shared by the operations of this service. */
export interface ComponentsContext {
  deps: ComponentsDeps;
  library: Library;
  fetchCode: FetchCode;
}

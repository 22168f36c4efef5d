import type { ServiceName } from '@wellspring/contract/endpoint';
import type { Route } from '@wellspring/http/bind';

/** A background task: runs until the signal is aborted, then finishes what it began and resolves. */
export interface Worker {
  name: string;
  run(signal: AbortSignal): Promise<void>;
}

/** A service is a value: its endpoints and its workers. Nothing happens before somebody listens and runs them. */
export interface Service {
  name: ServiceName;
  routes?: readonly Route[];
  workers?: readonly Worker[];
  /** Released in reverse order after the workers have ended. */
  dispose?(): Promise<void>;
}

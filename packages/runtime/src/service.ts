import type { RequestListener } from 'node:http';
import type { ServiceName } from '@wellspring/contract/endpoint';
import type { Route } from '@wellspring/http/bind';

/** A background task: runs until the signal is aborted, then finishes what it began and resolves. */
export interface BackgroundWorker {
  name: string;
  /** Told to end as soon as the process drains, before the requests under way are finished. */
  early?: boolean;
  run(signal: AbortSignal): Promise<void>;
}

/** A service is a value: its endpoints and its workers. Nothing happens before somebody listens and runs them. */
export interface Service {
  name: ServiceName;
  routes?: readonly Route[];
  workers?: readonly BackgroundWorker[];
  /** Of the gateway: what answers on the two listeners of the process. */
  publicListener?: RequestListener;
  operatorListener?: RequestListener;
  /** Released in reverse order after the workers have ended. */
  dispose?(): Promise<void>;
}

import type { RequestListener } from 'node:http';
import type { ServiceName } from '@wellspring/contract/endpoint';
import type { Route } from '@wellspring/http/bind';

/** Runs until the signal is aborted, then finishes its work in progress and resolves. */
export interface BackgroundWorker {
  name: string;
  /** Aborted as soon as the process drains, before requests in progress are finished. */
  early?: boolean;
  run(signal: AbortSignal): Promise<void>;
}

/** A service is a value: endpoints and background workers, which the process serves and runs. */
export interface Service {
  name: ServiceName;
  routes?: readonly Route[];
  workers?: readonly BackgroundWorker[];
  /** Of the gateway: handlers of the two listeners of the process. */
  publicListener?: RequestListener;
  operatorListener?: RequestListener;
  /** Released in reverse order after the workers have ended. */
  dispose?(): Promise<void>;
}

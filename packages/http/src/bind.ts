import type { Endpoint, InputOf, OutputOf, ParamsOf } from '@wellspring/contract/endpoint';
import type { Principal } from '@wellspring/contract/principal';
import type { Request, Response } from 'express';

export interface RequestContext<E extends Endpoint = Endpoint> {
  params: ParamsOf<E>;
  input: InputOf<E>;
  principal: Principal;
  /** `req_…` */
  requestId: string;
  /** Aborted when the client goes away. */
  signal: AbortSignal;
  req: Request;
  res: Response;
}

/** One page of a list: bind makes page_info of it. */
export interface Page<T> {
  data: T[];
  total_count: number;
  /** `raw`: the ids themselves are the cursors (event lists); default: base64url of the id. */
  cursors?: 'raw';
}

/** What a handler gives, by envelope. */
export type Answer<E extends Endpoint> = E['envelope'] extends 'page'
  ? Page<OutputOf<E>>
  : E['envelope'] extends 'list'
    ? OutputOf<E>[]
    : E['envelope'] extends 'single'
      ? OutputOf<E>
      : // none, null, stream, raw
        void;

/** An endpoint together with what answers it. */
export interface Route {
  endpoint: Endpoint;
  handle(context: RequestContext): Promise<unknown>;
}

/** Binds a handler to a declared endpoint; its types come from the declaration. */
export function route<E extends Endpoint>(
  endpoint: E,
  handle: (context: RequestContext<E>) => Promise<Answer<E>>,
): Route {
  return { endpoint, handle: handle as Route['handle'] };
}

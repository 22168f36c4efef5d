import type { ServerResponse } from 'node:http';

/** Calls it when the answer was sent or its client has left, at once if that has happened. */
export function onceClosed(res: ServerResponse, then: () => void): void {
  if (res.closed) then();
  else res.once('close', then);
}

/** Status for a client that disconnected before the response, as in nginx. */
const CLIENT_CLOSED = 499;

/** The status of a closed response; 499 if its client disconnected before it began. */
export const closedStatus = (res: ServerResponse): number =>
  res.headersSent ? res.statusCode : CLIENT_CLOSED;

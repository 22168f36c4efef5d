import type { ServerResponse } from 'node:http';

/** Calls it when the answer was sent or its client has left, at once if that has happened. */
export function onceClosed(res: ServerResponse, then: () => void): void {
  if (res.closed) then();
  else res.once('close', then);
}

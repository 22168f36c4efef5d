import type { IncomingMessage, ServerResponse } from 'node:http';
import { createHealthListener } from '@wellspring/runtime/health';

/** Whether the health listener of a process answers at this path. @param onOperatorPort includes metrics */
export function isHealthPath(url: string, { onOperatorPort = false } = {}): boolean {
  const part = { ping: async () => {} };
  const deps = { store: part, queue: part, pubsub: part, call: part, blob: part };
  const exposition = { metrics: {}, contentType: 'text/plain', read: async () => '' };
  const options = { isDraining: () => false, ...(onOperatorPort && { exposition }) };
  const listener = createHealthListener(
    deps as unknown as Parameters<typeof createHealthListener>[0],
    options as Parameters<typeof createHealthListener>[1],
  );
  const req = { url, method: 'GET', resume() {} };
  const res = { writeHead() {}, end() {} };
  return listener(req as unknown as IncomingMessage, res as unknown as ServerResponse);
}

import type { Log } from '@wellspring/core/log';

/** A log that collects the event names of its lines. */
export function listLog(): { log: Log; lines: string[] } {
  const lines: string[] = [];
  const line = (_fields: object, event: string) => lines.push(event);
  const log: Log = { debug: line, info: line, warn: line, error: line };
  return { log, lines };
}

import { formatWithOptions, inspect } from 'node:util';
import type { LogLine } from '@wellspring/component/program/program-types';
import { systemClock } from '@wellspring/core/clock';

export const MAX_LINE_CHARS = 17 * 1024;
/** A secret that was cut inside of a line could not be found and masked. */
const LOG_FORMAT = { maxStringLength: MAX_LINE_CHARS };

const LEVELS = {
  log: 'info',
  info: 'info',
  debug: 'debug',
  warn: 'warn',
  error: 'error',
  trace: 'debug',
} as const;

/** Makes what code writes to the console lines of its log. Further methods of the console use these. */
export function captureConsole(log: (line: LogLine) => void): void {
  for (const [method, level] of Object.entries(LEVELS)) {
    (console as unknown as Record<string, unknown>)[method] = (...args: unknown[]) =>
      log({ ts: systemClock.now(), level, msg: formatWithOptions(LOG_FORMAT, ...args) });
  }
  // It would write to the standard output, whose lines arrive apart from these.
  console.dir = (value, options) => {
    const msg = inspect(value, { ...LOG_FORMAT, customInspect: false, ...options });
    log({ ts: systemClock.now(), level: 'info', msg });
  };
}

import type { LogEvent } from './log-events.ts';

/** Structured logging: fields first, then an event of log-events.ts. No secrets in fields. */
export interface Log {
  debug(fields: object, event: LogEvent): void;
  info(fields: object, event: LogEvent): void;
  warn(fields: object, event: LogEvent): void;
  error(fields: object, event: LogEvent): void;
}

export const silentLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
};

import type { ThrownError } from '@wellspring/component/program/program-types';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { truncateUtf8 } from '@wellspring/core/truncate';
import type { Result } from '@wellspring/sandbox/port';

interface Run {
  run_id: string;
  source_id: string;
  trace_id: string;
}

/** Logs the end of a run. */
export type LogRun = (run: Run, result: Result, errors: readonly ThrownError[]) => void;

/** Minimum interval of warnings: a component may fail a thousand times a second. */
const WARN_INTERVAL_MS = 1000;
const MAX_BYTES = 500;

/** One line, without characters that control a terminal. */
const oneLine = (text: string) => truncateUtf8(text.replace(/\p{Cc}+/gu, ' ').trim(), MAX_BYTES);

/** Characters of a stack that are searched: it is hostile, and the search is on the main thread. */
const MAX_STACK_CHARS = 2_000;

/** `file:line:column` of the topmost frame of a stack. */
export const placeOf = (stack: string): string | undefined =>
  /^[ \t]{1,8}at (?:.*\()?([^\s()]+:\d+:\d+)\)?$/m.exec(stack.slice(0, MAX_STACK_CHARS))?.[1];

/** For the runs of one source: a debug line for each, and a warning with message and place if the component failed. */
export function createLogRun(log: Log, clock: Clock): LogRun {
  let warnedAt = Number.NEGATIVE_INFINITY;
  return (run, { ok, durationMs: duration_ms }, errors) => {
    log.debug({ ...run, ok, duration_ms }, 'run.finished');
    const error = errors.at(-1);
    if (!error || clock.now() - warnedAt < WARN_INTERVAL_MS) return;
    warnedAt = clock.now();
    const { source_id, run_id } = run;
    const at = placeOf(error.stack);
    log.warn(
      {
        source_id,
        error: oneLine(`${error.name}: ${error.message}`),
        ...(at === undefined ? {} : { at: oneLine(at) }),
        run_id,
      },
      'run.failed',
    );
  };
}

import type { Readable } from 'node:stream';
import type { LogLine } from '@wellspring/component/program/program-types';
import { LIMITS } from '@wellspring/contract/limits';
import type { Clock } from '@wellspring/core/clock';
import { truncateUtf8 } from '@wellspring/core/truncate';

export interface CaptureOptions {
  clock: Clock;
  /** @returns whether the lines of this text are accepted */
  onText(chars: number): boolean;
  /** @returns whether further lines are accepted */
  onLine(line: LogLine): boolean;
}

/** Length of the end of stderr that is kept to explain why a process ended. */
const MAX_STDERR_CHARS = 8 * 1024;

/** The first line of what V8 prints when a process has no memory left, and that of other fatal errors. */
const CRASH = /^(?:<--- Last few GCs --->|FATAL ERROR: )/;

/** Removes paths of the host. */
const insideOnly = (text: string) => text.replaceAll(process.execPath, 'node');

/**
 * Reads the standard streams of code as log lines, without the report of a crash of V8: the error of the run says in a
 * sentence what happened.
 * @returns a function that returns the end of stderr
 */
export function captureStreams(
  { stdout, stderr }: Record<'stdout' | 'stderr', Readable>,
  { clock, onText, onLine }: CaptureOptions,
): () => string {
  let tail = '';
  let crashed = false;
  const capture = (stream: Readable, level: 'info' | 'error') =>
    stream.setEncoding('utf8').on('data', (text: string) => {
      if (level === 'error') tail = (tail + text).slice(-MAX_STDERR_CHARS);
      if (!onText(text.length)) return;
      // Does not search for lines that are dropped: a chunk may contain tens of thousands.
      for (let from = 0, taken = true; taken && from < text.length; ) {
        const found = text.indexOf('\n', from);
        const to = found < 0 ? text.length : found;
        const msg = text.slice(from, to);
        from = to + 1;
        crashed ||= level === 'error' && CRASH.test(msg);
        if (msg !== '' && !(crashed && level === 'error'))
          taken = onLine({ level, msg: truncateUtf8(insideOnly(msg), LIMITS.logLine), ts: clock.now() });
      }
    });
  capture(stdout, 'info');
  capture(stderr, 'error');
  return () => tail;
}

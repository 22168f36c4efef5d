import type { Readable } from 'node:stream';
import type { LogLine } from '@wellspring/component/program/program-types';
import { LIMITS } from '@wellspring/contract/limits';
import type { Clock } from '@wellspring/core/clock';
import { truncateUtf8 } from '@wellspring/core/truncate';

export interface CaptureOptions {
  clock: Clock;
  /** @returns whether the lines of this text are wanted */
  onText(chars: number): boolean;
  /** @returns whether further lines are wanted */
  onLine(line: LogLine): boolean;
}

/** Kept of stderr, to tell why a process ended. */
const MAX_STDERR_CHARS = 8 * 1024;

/** Without the paths of the host. */
const insideOnly = (text: string) => text.replaceAll(process.execPath, 'node');

/**
 * Reads what code writes to its standard streams by itself, as log lines.
 * @returns gives the last text of stderr
 */
export function captureStreams(
  { stdout, stderr }: Record<'stdout' | 'stderr', Readable>,
  { clock, onText, onLine }: CaptureOptions,
): () => string {
  let tail = '';
  const capture = (stream: Readable, level: 'info' | 'error') =>
    stream.setEncoding('utf8').on('data', (text: string) => {
      if (level === 'error') tail = (tail + text).slice(-MAX_STDERR_CHARS);
      if (!onText(text.length)) return;
      // Lines that are dropped are not even looked for: a chunk may hold tens of thousands.
      for (let from = 0, taken = true; taken && from < text.length; ) {
        const found = text.indexOf('\n', from);
        const to = found < 0 ? text.length : found;
        const msg = text.slice(from, to);
        from = to + 1;
        if (msg !== '')
          taken = onLine({ level, msg: truncateUtf8(insideOnly(msg), LIMITS.logLine), ts: clock.now() });
      }
    });
  capture(stdout, 'info');
  capture(stderr, 'error');
  return () => tail;
}

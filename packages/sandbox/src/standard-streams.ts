import type { Readable } from 'node:stream';
import type { LogLine } from '@wellspring/component/program/program-types';
import { LIMITS } from '@wellspring/contract/limits';
import type { Clock } from '@wellspring/core/clock';
import { truncateUtf8 } from '@wellspring/core/truncate';

export interface CaptureOptions {
  clock: Clock;
  /** @returns whether the lines of this text are accepted; otherwise it is dropped, with the line that it continues */
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

export interface CapturedStreams {
  /** The end of stderr. */
  stderrTail(): string;
  /** The run has ended: lines without a line break end, too. More of their text may be on its way. */
  endLines(): void;
}

/**
 * Reads the standard streams of code as log lines, without the report of a crash of V8: the error of the run says in a
 * sentence what happened. A line that arrives in several chunks is one line, so that the secrets in it are found. What
 * is longer than the limit is dropped.
 */
export function captureStreams(
  { stdout, stderr }: Record<'stdout' | 'stderr', Readable>,
  { clock, onText, onLine }: CaptureOptions,
): CapturedStreams {
  let tail = '';
  let crashed = false;

  /** @returns a function that ends the current line */
  function capture(stream: Readable, level: 'info' | 'error'): () => void {
    /** The beginning of the current line. */
    let line = '';

    /** @returns whether further lines are accepted */
    function endLine(isComplete: boolean): boolean {
      const text = line;
      line = '';
      if (text === '') return true;
      crashed ||= level === 'error' && CRASH.test(text);
      if (crashed && level === 'error') return true;
      const isCut = !isComplete || text.length === LIMITS.logLine;
      const msg = truncateUtf8(insideOnly(text), LIMITS.logLine);
      return onLine({ level, msg, ts: clock.now(), ...(isCut ? { isCut } : {}) });
    }

    stream.setEncoding('utf8').on('data', (text: string) => {
      if (level === 'error') tail = (tail + text).slice(-MAX_STDERR_CHARS);
      if (!onText(text.length)) {
        line = '';
        return;
      }
      // Does not search for lines that are dropped: a chunk may contain tens of thousands.
      for (let from = 0, taken = true; taken && from < text.length; ) {
        const found = text.indexOf('\n', from);
        const to = found < 0 ? text.length : found;
        line += text.slice(from, Math.min(to, from + LIMITS.logLine - line.length));
        from = to + 1;
        if (found >= 0) taken = endLine(true);
      }
    });
    return () => void endLine(false);
  }

  const ends = [capture(stdout, 'info'), capture(stderr, 'error')];
  return {
    stderrTail: () => tail,
    endLines() {
      for (const end of ends) end();
    },
  };
}

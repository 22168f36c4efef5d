import { LIMITS } from '@wellspring/contract/limits';

const MAX_LOG_LINES = 2000;
/** Of all lines: they are stored as one row. */
const MAX_LOG_CHARS = 2 * 1024 * 1024;
const MAX_FAULTS = 100;

/** What one call may do. Everything is counted before it is done. */
export interface Budget {
  /** @returns what was exceeded, for which the process has to end */
  spend(bytes: number): string | undefined;
  emit(): string | undefined;
  /** Whether a log line is taken; with `last` no further one will be. */
  line(chars: number): 'take' | 'last' | 'drop';
  fault(): boolean;
  /** The first reply counts. */
  reply(): boolean;
}

export function createBudget(): Budget {
  let [bytes, emits, lines, logChars, faults, replies] = [0, 0, 0, 0, 0, 0];
  let full = false;
  return {
    spend(size) {
      bytes += size;
      return bytes > LIMITS.runBytes
        ? `The run emitted and logged more than ${LIMITS.runBytes / 1024 / 1024} MB.`
        : undefined;
    },
    emit() {
      emits += 1;
      return emits > LIMITS.emits ? `The run emitted more than ${LIMITS.emits} events.` : undefined;
    },
    line(chars) {
      if (full) return 'drop';
      lines += 1;
      logChars += chars;
      full = lines >= MAX_LOG_LINES || logChars > MAX_LOG_CHARS;
      return full ? 'last' : 'take';
    },
    fault() {
      faults += 1;
      return faults <= MAX_FAULTS;
    },
    reply() {
      replies += 1;
      return replies === 1;
    },
  };
}

import { LIMITS } from '@wellspring/contract/limits';

const MAX_LOG_LINES = 2000;
const MAX_FAULTS = 100;

/** What one call may do. Everything is counted before it is done. */
export interface Budget {
  /** @returns what was exceeded, for which the process has to end */
  spend(bytes: number): string | undefined;
  emit(): string | undefined;
  /** Whether a log line is taken; with `last` no further one will be. */
  line(): 'take' | 'last' | 'drop';
  fault(): boolean;
  /** The first reply counts. */
  reply(): boolean;
}

export function createBudget(): Budget {
  let [bytes, emits, lines, faults, replies] = [0, 0, 0, 0, 0];
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
    line() {
      lines += 1;
      return lines < MAX_LOG_LINES ? 'take' : lines === MAX_LOG_LINES ? 'last' : 'drop';
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

import { LIMITS } from '@wellspring/contract/limits';

const MAX_LOG_LINES = 2000;
/** All lines of a call together: they are stored as one row. */
const MAX_LOG_CHARS = 2 * 1024 * 1024;
const MAX_FAULTS = 100;

/** Limits of one call's output. Everything is counted before it is passed on. */
export interface Budget {
  /** @returns the exceeded limit, for which the process has to end */
  spend(bytes: number): string | undefined;
  emit(): string | undefined;
  /** A change of `$service.db`. @returns the exceeded limit */
  dbSet(): string | undefined;
  /** Whether to accept a log line. After `last` none is accepted. */
  line(chars: number): 'take' | 'last' | 'drop';
  fault(): boolean;
  /** An export or a send of an action. @returns the exceeded limit */
  step(): string | undefined;
  /** The first reply counts. */
  reply(): boolean;
}

export function createBudget(): Budget {
  let [bytes, emits, dbSets, lines, logChars, faults, replies, steps] = [0, 0, 0, 0, 0, 0, 0, 0];
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
    dbSet() {
      dbSets += 1;
      return dbSets > LIMITS.dbSets
        ? `The run changed $service.db more than ${LIMITS.dbSets} times.`
        : undefined;
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
    step() {
      steps += 1;
      return steps > LIMITS.stepEffects
        ? `The step made more than ${LIMITS.stepEffects} exports and requests.`
        : undefined;
    },
    reply() {
      replies += 1;
      return replies === 1;
    },
  };
}

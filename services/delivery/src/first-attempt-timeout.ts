import type { Clock } from '@wellspring/core/clock';
import { FIRST_ATTEMPT_TIMEOUT_MS } from './lease.ts';

/** Calls `onTimeout` after FIRST_ATTEMPT_TIMEOUT_MS, unless the returned function was called before. */
export type FirstAttemptTimeout = (onTimeout: () => void) => () => void;

export const createFirstAttemptTimeout =
  (clock: Clock): FirstAttemptTimeout =>
  (onTimeout) => {
    let call: (() => void) | undefined = onTimeout;
    void clock.sleep(FIRST_ATTEMPT_TIMEOUT_MS).then(() => call?.());
    return () => {
      call = undefined;
    };
  };

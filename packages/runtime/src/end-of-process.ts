import { isatty } from 'node:tty';
import type { Log } from '@wellspring/core/log';
import type { Launchers } from './launchers.ts';
import { STOP_TIMEOUT_MS } from './run.ts';

/** After an error that nothing handled: the state of the process cannot be relied on for long. */
const CRASH_DRAIN_MS = 10_000;
/** Time to close the adapters. */
const MARGIN_MS = 5_000;
const WATCH_INTERVAL_MS = 500;

/**
 * Ends the process in order: on SIGTERM and SIGINT, when it has lost its terminal, when the process that started it has
 * ended, and, with exit code 1, after an unhandled error. A second signal ends it at once.
 * @param stop drains for at most that many ms; resolves with whether all work was finished
 */
export function endInOrder(
  stop: (limitMs: number) => Promise<boolean>,
  { log, launchers }: { log: Log; launchers: Launchers | undefined },
): void {
  let ending = false;
  function end(code: number, limitMs: number): void {
    if (ending) return;
    ending = true;
    clearInterval(looking);
    setTimeout(() => process.exit(1), limitMs + MARGIN_MS);
    stop(limitMs).then(
      (finished) => {
        log.info({ finished }, 'process.stopped');
        process.exit(code);
      },
      () => process.exit(1),
    );
  }

  for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
    process.on(event, (error: unknown) => {
      const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
      log.error({ error: reason }, 'process.unexpected');
      end(1, CRASH_DRAIN_MS);
    });
  }

  let signals = 0;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      signals += 1;
      if (signals > 1) process.exit(1);
      log.info({ signal }, 'process.draining');
      end(0, STOP_TIMEOUT_MS);
    });
  }

  let missed = 0;
  const looking = setInterval(() => {
    missed = launchers && !launchers.alive() ? missed + 1 : 0;
    // A SIGHUP may follow.
    if (missed < 2) return;
    log.info({ signal: 'none: the process that started it is gone' }, 'process.draining');
    end(0, STOP_TIMEOUT_MS);
  }, WATCH_INTERVAL_MS).unref();
  if (!launchers) clearInterval(looking);

  // Node.js has undone the effect of nohup; package managers pass the signal on and end.
  const isDetached = !isatty(0) && !isatty(1);
  process.on('SIGHUP', () => {
    clearInterval(looking);
    if (isDetached) return;
    log.info({ signal: 'SIGHUP' }, 'process.draining');
    end(0, STOP_TIMEOUT_MS);
  });
}

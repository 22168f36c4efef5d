import { connect, type Socket } from 'node:net';
import { RelayError } from './relay-error.ts';

/** After this time without an answer, the next address is tried concurrently. */
const STAGGER_MS = 250;

/**
 * Connects to the first address that answers, trying them in order (RFC 8305 without sorting).
 * @param addresses IP addresses; names are not resolved
 * @throws the error of the last address that failed; RelayError ETIMEDOUT; the reason of the signal
 */
export function dial(
  addresses: readonly string[],
  port: number,
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const attempts = new Set<Socket>();
    let next = 0;
    let stagger: NodeJS.Timeout | undefined;

    const settle = () => {
      clearTimeout(deadline);
      clearTimeout(stagger);
      signal.removeEventListener('abort', onAbort);
      for (const attempt of attempts) attempt.destroy();
    };
    const fail = (error: unknown) => {
      settle();
      reject(error);
    };
    const onAbort = () => fail(signal.reason);
    const deadline = setTimeout(
      () =>
        fail(
          new RelayError({
            code: 'ETIMEDOUT',
            syscall: 'connect',
            message: `connect ETIMEDOUT ${addresses[0]}:${port}: no answer within ${timeoutMs / 1000} s`,
            address: addresses[0]!,
            port,
          }),
        ),
      timeoutMs,
    );
    signal.addEventListener('abort', onAbort, { once: true });

    function attempt(): void {
      const address = addresses[next++];
      if (address === undefined) return;
      clearTimeout(stagger);
      if (next < addresses.length) stagger = setTimeout(attempt, STAGGER_MS);
      const socket = connect({ host: address, port, allowHalfOpen: true, noDelay: true });
      attempts.add(socket);
      const onError = (error: Error) => {
        attempts.delete(socket);
        if (next < addresses.length) attempt();
        else if (attempts.size === 0) fail(error);
      };
      socket.once('error', onError);
      socket.once('connect', () => {
        socket.off('error', onError);
        attempts.delete(socket);
        settle();
        resolve(socket);
      });
    }

    if (signal.aborted) onAbort();
    else attempt();
  });
}

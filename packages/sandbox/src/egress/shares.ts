import { createByteBudget } from '@wellspring/core/byte-budget';
import { createFairPermits } from '@wellspring/core/fair-permits';
import type { EgressLimits } from './limits.ts';
import { createPace } from './pace.ts';

export type Release = () => void;

/**
 * What the sandboxes of one owner may hold in the relay: at most as much as stays free, so one owner gets at most half of
 * all. Each method returns a function that gives it back; undefined: the share is used up.
 */
export interface Share {
  /** A connection to the network, also while it is being opened. */
  connection(): Release | undefined;
  /**
   * An attempt to connect, which uses a socket per address. Waits for its turn.
   * @throws Error after this time, or if the signal is aborted
   */
  dial(signal: AbortSignal, timeoutMs: number): Promise<Release>;
  /** A connection of a sandbox to the relay. */
  socket(): Release | undefined;
  /** Bytes that were received and not yet passed on. */
  unsent(bytes: number): Release | undefined;
  /**
   * Bytes that are passed on.
   * @returns true: the connection has to pause until `resume` is called, since the owner has used up this turn
   */
  pass(bytes: number, resume: () => void): boolean;
}

/** @returns the share of an owner, which may change: it is asked at each use */
export function createShares(limits: EgressLimits): (owner: () => string) => Share {
  const connections = createFairPermits({ total: limits.totalConnections });
  const dials = createFairPermits({ total: limits.totalDials });
  const sockets = createFairPermits({ total: limits.totalSockets });
  const unsent = createByteBudget(limits.totalUnsentBytes);
  const pace = createPace();
  return (owner) => ({
    connection: () => connections.tryAcquire(owner()),
    dial: async (signal, timeoutMs) =>
      dials.tryAcquire(owner()) ??
      dials.acquire(owner(), AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])),
    socket: () => sockets.tryAcquire(owner()),
    unsent: (bytes) => unsent.tryTake(bytes, owner()),
    pass: (bytes, resume) => pace.pass(owner(), bytes, resume),
  });
}

/** What one sandbox may take of the network. */
export interface EgressLimits {
  /** Connections that are open or being opened at the same time. */
  connections: number;
  /** New connections per second, and how many may come at once after a pause. */
  connectionsPerSecond: number;
  connectionBurst: number;
  /** Names looked up per second, and at once after a pause. */
  lookupsPerSecond: number;
  lookupBurst: number;
  /** Addresses of one target that are tried; each takes a socket of the relay. */
  addresses: number;
  /** Questions of a sandbox that are not answered yet; each may wait for a slow name server. */
  pendingLookups: number;
  /** Lines that the threads of a sandbox say on their channels per second, and at once after a pause. */
  linesPerSecond: number;
  lineBurst: number;
  /** Bytes per run, sent and received together. */
  bytesPerRun: number;
  /** From the acceptance of a connection to its last byte of preamble. */
  preambleMs: number;
  /** Until one of the addresses of a target answers. */
  connectMs: number;
  /** Without a byte in either direction. */
  idleMs: number;
}

export const EGRESS_LIMITS: EgressLimits = {
  connections: 64,
  connectionsPerSecond: 50,
  connectionBurst: 100,
  lookupsPerSecond: 100,
  lookupBurst: 200,
  addresses: 8,
  pendingLookups: 128,
  linesPerSecond: 500,
  lineBurst: 2000,
  bytesPerRun: 100 * 1024 * 1024,
  preambleMs: 5_000,
  connectMs: 30_000,
  idleMs: 300_000,
};

/** Counts down from `burst` and back up at `perSecond`. @returns whether one more is within the limit */
export function createRateLimit(perSecond: number, burst: number): (now: number) => boolean {
  let left = burst;
  let at = 0;
  return (now) => {
    if (at > 0) left = Math.min(burst, left + ((now - at) / 1000) * perSecond);
    at = now;
    if (left < 1) return false;
    left -= 1;
    return true;
  };
}

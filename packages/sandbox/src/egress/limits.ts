/** Network limits of one sandbox, and of all sandboxes together. */
export interface EgressLimits {
  /** Concurrent connections, including those being opened. */
  connections: number;
  /** New connections per second, and at once after a pause. */
  connectionsPerSecond: number;
  connectionBurst: number;
  /** Names looked up per second, and at once after a pause. */
  lookupsPerSecond: number;
  lookupBurst: number;
  /** Addresses tried per target; each uses a socket of the relay. */
  addresses: number;
  /** Unanswered questions of a sandbox; each may wait for a slow name server. */
  pendingLookups: number;
  /** Lines on the channels of a sandbox per second, and at once after a pause. */
  linesPerSecond: number;
  lineBurst: number;
  /** Bytes per run, sent and received together. */
  bytesPerRun: number;
  /** From accepting a connection to the last byte of its preamble. */
  preambleMs: number;
  /** Until an address of the target answers. */
  connectMs: number;
  /** Without a byte in either direction. */
  idleMs: number;
  /** Of all sandboxes, shared between owners: see shares.ts. */
  totalConnections: number;
  totalDials: number;
  totalSockets: number;
  totalUnsentBytes: number;
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
  totalConnections: 4096,
  totalDials: 512,
  totalSockets: 16_384,
  totalUnsentBytes: 64 * 1024 * 1024,
};

/** Token bucket of `burst` tokens, refilled at `perSecond`. @returns whether a token was left */
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

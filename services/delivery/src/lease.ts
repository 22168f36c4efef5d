/** Lease of a row: far longer than an attempt takes. Afterwards another process may attempt the delivery. */
export const LEASE_MS = 60_000;

export const ATTEMPT_TIMEOUT_MS = 15_000;

/** Time that a first attempt may wait or take before its delivery becomes a row, so that its message is done. */
export const FIRST_ATTEMPT_TIMEOUT_MS = 1_000;

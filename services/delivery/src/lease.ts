/** Lease of a delivery: far longer than an attempt takes. */
export const LEASE_MS = 60_000;

export const ATTEMPT_TIMEOUT_MS = 15_000;

/** No attempt starts under a lease that ends sooner: another process could repeat it. */
export const LEASE_MARGIN_MS = ATTEMPT_TIMEOUT_MS + 5_000;

/** Time that a delivery may wait in memory for a permit before it is parked in the store. */
export const MAX_QUEUED_MS = 5_000;

/** How long somebody may hold a delivery before others may take it: far more than an attempt needs. */
export const LEASE_MS = 60_000;

/** An answer that does not come within this is a failure. */
export const ATTEMPT_MS = 15_000;

/** Nothing is begun under a lease that ends sooner: a duplicate attempt would be possible. */
export const LEASE_MARGIN_MS = ATTEMPT_MS + 5_000;

/** How long a delivery may wait in memory for a slot before it is parked in the store. */
export const LINE_MS = 5_000;

/**
 * Ms to wait after `failures` failures in a row, at least 1: `firstMs`, doubled with each further failure, at most
 * `maxMs`.
 */
export const backoffMs = (failures: number, { firstMs, maxMs }: { firstMs: number; maxMs: number }): number =>
  Math.min(firstMs * 2 ** (failures - 1), maxMs);

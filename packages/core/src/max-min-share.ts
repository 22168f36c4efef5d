/**
 * Divides an amount among demands, max-min fair: a demand up to the share gets what it asks for, each larger one the
 * share. Infinity if all get what they ask for.
 */
export function maxMinShare(total: number, demands: Iterable<number>): number {
  const ascending = [...demands].sort((a, b) => a - b);
  let left = total;
  for (const [n, demand] of ascending.entries()) {
    const share = left / (ascending.length - n);
    if (demand > share) return share;
    left -= demand;
  }
  return Number.POSITIVE_INFINITY;
}

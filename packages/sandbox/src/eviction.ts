/** A process as far as eviction is concerned. */
interface Evictable {
  readonly ownerId: string;
  /** Memory. */
  bytes: number;
  /** Number of unfinished calls. */
  busy: number;
  /** `performance.now()` of its last use. */
  usedAt: number;
}

/**
 * Chooses idle processes to end until the others hold at most `maxBytes`: of the owner whose processes hold the most,
 * the least recently used. So an owner with many sources does not evict the processes of others.
 * @param except a process that is never chosen
 */
export function chooseEvicted<P extends Evictable>(
  processes: ReadonlyMap<string, P>,
  maxBytes: number,
  except?: P,
): [key: string, process: P][] {
  let bytes = 0;
  const byOwner = new Map<string, number>();
  const count = ({ ownerId }: P, change: number) => {
    bytes += change;
    byOwner.set(ownerId, (byOwner.get(ownerId) ?? 0) + change);
  };
  for (const proc of processes.values()) count(proc, proc.bytes);
  if (bytes <= maxBytes) return [];
  const candidates = new Set([...processes].filter(([, proc]) => proc.busy === 0 && proc !== except));
  const evicted: [string, P][] = [];
  while (bytes > maxBytes) {
    let chosen: [string, P] | undefined;
    for (const entry of candidates) {
      const [, proc] = entry;
      const more = chosen ? byOwner.get(proc.ownerId)! - byOwner.get(chosen[1].ownerId)! : 1;
      if (!chosen || more > 0 || (more === 0 && proc.usedAt < chosen[1].usedAt)) chosen = entry;
    }
    if (!chosen) break;
    candidates.delete(chosen);
    count(chosen[1], -chosen[1].bytes);
    evicted.push(chosen);
  }
  return evicted;
}

import { randomInt } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';

/** User ids (and group ids of the same number) for sandboxes: each belongs to one slot at a time. */
export interface UserIds {
  /** An id that no process uses. @throws Error when all are in use */
  allocate(): number;
  /** The slot is gone, with its processes and files. */
  release(id: number): void;
}

/** A range from `first` to `last`, of which each platform takes a block of its own. */
interface Range {
  first: number;
  last: number;
}

/**
 * The first range that the user namespace maps is used. The upper one is used by no distribution, not by systemd, and
 * not by subordinate ids for containers. A container with 65,536 ids lacks it: there it is the range from which systemd
 * takes dynamic users, since no systemd runs beside the platform in such a container.
 */
const RANGES: readonly Range[] = [
  { first: 2_000_000_000, last: 2_147_483_646 },
  { first: 61_184, last: 65_519 },
];
const BLOCK = 4096;

/** @param map content of /proc/self/uid_map: lines of `inside outside count` */
export function mappedRange(map: string): Range | undefined {
  const mapped = map
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number));
  return RANGES.find(({ first, last }) =>
    mapped.some(([inside = 0, , count = 0]) => inside <= first && last < inside + count),
  );
}

/** User ids that have a process. */
export function usedUserIds(): Set<number> {
  const used = new Set<number>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      used.add(statSync(`/proc/${name}`).uid);
    } catch {
      // The process has ended meanwhile.
    }
  }
  return used;
}

/** @returns undefined where there are no ids to assign: not Linux, or the user namespace maps too few of them */
export function createUserIds(): UserIds | undefined {
  if (process.platform !== 'linux') return undefined;
  const [users, groups] = ['uid_map', 'gid_map'].map((map) =>
    mappedRange(readFileSync(`/proc/self/${map}`, 'utf8')),
  );
  const range = users?.first === groups?.first ? users : undefined;
  if (!range) return undefined;
  const used = usedUserIds();
  const blocks = Math.max(1, Math.floor((range.last - range.first + 1) / BLOCK));
  const start = range.first + randomInt(blocks) * BLOCK;
  let next = start;
  return {
    allocate() {
      for (let tries = 0; tries < BLOCK; tries += 1) {
        const id = next;
        next = start + ((next - start + 1) % BLOCK);
        if (used.has(id)) continue;
        used.add(id);
        return id;
      }
      throw new Error(`All ${BLOCK} user ids for sandboxes are in use.`);
    },
    release: (id) => void used.delete(id),
  };
}

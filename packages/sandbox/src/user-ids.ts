import { randomInt } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';

/** User ids (and equal group ids) of sandboxes: each belongs to one process directory at a time. */
export interface UserIds {
  /** An unused id. @throws Error if all are in use */
  allocate(): number;
  /** Frees an id after its processes and files are gone. */
  release(id: number): void;
}

/** A range from `first` to `last`, of which each platform uses a random block. */
interface Range {
  first: number;
  last: number;
}

/**
 * The first range that the user namespace maps is used. The upper one is not used by distributions, systemd, or
 * subordinate ids of containers. Containers with 65,536 ids do not map it; there the range of systemd's dynamic users
 * is used, since no systemd runs in such a container.
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

/** User ids of all running processes. */
export function usedUserIds(): Set<number> {
  const used = new Set<number>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      used.add(statSync(`/proc/${name}`).uid);
    } catch {
      // The process has ended.
    }
  }
  return used;
}

/** @returns undefined on systems other than Linux, or if the user namespace maps too few ids */
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

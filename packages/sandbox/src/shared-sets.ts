import type { InTurns } from './turns.ts';

/** Directories shared by processes, created on demand; the least recently used are removed. */
export interface SharedSets {
  /**
   * @param owner whose share a new directory counts for
   * @returns the name of the directory for this source, which exists at least until `release`
   */
  use(user: string, source: string, owner: SetOwner): Promise<string>;
  /** The user no longer needs its directory. */
  release(user: string): void;
}

export interface SetOwner {
  id: string;
  inTurns: InTurns;
}

export interface SharedSetsOptions {
  /**
   * Creates the directory for a source.
   * @param held bytes of the directories that were created for this owner
   * @returns its name, and the bytes that it takes besides those of its source
   */
  make(source: string, owner: SetOwner, held: number): Promise<{ name: string; bytes: number }>;
  remove(name: string): void;
  /** False: the source was removed, and an unused directory would keep its files on disk. */
  isPresent(source: string): boolean;
}

interface Shared {
  source: string;
  ownerId: string;
  name: Promise<string>;
  bytes: number;
  users: number;
}

/** Maximum of unused directories. */
const MAX_UNUSED = 64;
const MAX_UNUSED_BYTES = 512 * 1024 * 1024;

export function createSharedSets({ make, remove, isPresent }: SharedSetsOptions): SharedSets {
  const bySource = new Map<string, Shared>();
  const byUser = new Map<string, Shared>();
  /** Least recently used first. */
  const unused = new Set<Shared>();

  function forget(shared: Shared): void {
    if (bySource.get(shared.source) === shared) bySource.delete(shared.source);
    unused.delete(shared);
  }

  const bytesOf = (sets: Iterable<Shared>) => [...sets].reduce((sum, { bytes }) => sum + bytes, 0);

  function create(source: string, owner: SetOwner): Shared {
    const held = bytesOf([...bySource.values()].filter(({ ownerId }) => ownerId === owner.id));
    const made = make(source, owner, held).then(({ name, bytes }) => {
      shared.bytes = bytes;
      return name;
    });
    const shared: Shared = { source, ownerId: owner.id, name: made, bytes: 0, users: 0 };
    made.catch(() => forget(shared));
    bySource.set(source, shared);
    return shared;
  }

  function removeUnused(): void {
    let bytes = bytesOf(unused);
    for (const shared of unused) {
      if (unused.size <= MAX_UNUSED && bytes <= MAX_UNUSED_BYTES && isPresent(shared.source)) continue;
      bytes -= shared.bytes;
      forget(shared);
      shared.name.then(remove, () => {});
    }
  }

  return {
    use(user, source, owner) {
      const shared = bySource.get(source) ?? create(source, owner);
      shared.users += 1;
      unused.delete(shared);
      byUser.set(user, shared);
      return shared.name;
    },
    release(user) {
      const shared = byUser.get(user);
      if (!shared) return;
      byUser.delete(user);
      shared.users -= 1;
      if (shared.users > 0 || bySource.get(shared.source) !== shared) return;
      unused.add(shared);
      removeUnused();
    },
  };
}

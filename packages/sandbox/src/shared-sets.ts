import { createDiskRoom, type DiskRoom } from './disk-room.ts';
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
   * @param take counts bytes that it takes besides those of its source, before they are written
   * @returns its name
   */
  make(source: string, owner: SetOwner, take: DiskRoom['take']): Promise<string>;
  /** Resolves when the directory is gone. */
  remove(name: string): Promise<void>;
  /** False: the source was removed, and an unused directory would keep its files on disk. */
  isPresent(source: string): boolean;
  /** Bytes that directories may still take. */
  free(): number;
}

interface Shared {
  source: string;
  ownerId: string;
  name: Promise<string>;
  room: DiskRoom;
  users: number;
}

/** Maximum of unused directories. */
const MAX_UNUSED = 64;
const MAX_UNUSED_BYTES = 512 * 1024 * 1024;

export function createSharedSets({ make, remove, isPresent, free }: SharedSetsOptions): SharedSets {
  const bySource = new Map<string, Shared>();
  const byUser = new Map<string, Shared>();
  /** Least recently used first. */
  const unused = new Set<Shared>();

  function forget(shared: Shared): void {
    if (bySource.get(shared.source) === shared) bySource.delete(shared.source);
    unused.delete(shared);
  }

  const bytesOf = (sets: Iterable<Shared>) => [...sets].reduce((sum, { room }) => sum + room.taken, 0);

  function create(source: string, owner: SetOwner): Shared {
    // Includes directories that are being created.
    const held = () =>
      bytesOf([...bySource.values()].filter((one) => one.ownerId === owner.id && one !== shared));
    const attempt = () => make(source, owner, shared.room.take);
    const name = Promise.resolve()
      .then(attempt)
      .catch(async (error: unknown) => {
        if (!shared.room.exceeded || bytesOf(unused) === 0) throw error;
        // Copies that nobody uses leave their room to this one.
        await removeUnused(0);
        shared.room = createDiskRoom(held, free);
        return attempt();
      });
    const shared: Shared = { source, ownerId: owner.id, name, room: createDiskRoom(held, free), users: 0 };
    shared.name.catch(() => forget(shared));
    bySource.set(source, shared);
    return shared;
  }

  /** Resolves when they are gone. */
  async function removeUnused(maxBytes = MAX_UNUSED_BYTES): Promise<void> {
    const removals: Promise<void>[] = [];
    let bytes = bytesOf(unused);
    for (const shared of unused) {
      if (unused.size <= MAX_UNUSED && bytes <= maxBytes && isPresent(shared.source)) continue;
      bytes -= shared.room.taken;
      forget(shared);
      removals.push(shared.name.then(remove).catch(() => {}));
    }
    await Promise.all(removals);
  }

  return {
    async use(user, source, owner) {
      for (;;) {
        const shared = bySource.get(source) ?? create(source, owner);
        shared.users += 1;
        unused.delete(shared);
        byUser.set(user, shared);
        try {
          return await shared.name;
        } catch (error) {
          // It was created for another owner, whose share may be used up.
          if (shared.ownerId === owner.id || byUser.get(user) !== shared) throw error;
        }
      }
    },
    release(user) {
      const shared = byUser.get(user);
      if (!shared) return;
      byUser.delete(user);
      shared.users -= 1;
      const afterwards = () => {
        if (shared.users > 0 || bySource.get(shared.source) !== shared) return;
        unused.add(shared);
        removeUnused();
      };
      // It is not removed while it is being created.
      shared.name.then(afterwards, () => {});
    },
  };
}

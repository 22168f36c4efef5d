import type { InTurns } from './turns.ts';

/** Directories shared by processes, created on demand; the least recently used are removed. */
export interface SharedSets {
  /**
   * @param inTurns used if the directory has to be created
   * @returns the name of the directory for this source, which exists at least until `release`
   */
  use(user: string, source: string, inTurns: InTurns): Promise<string>;
  /** The user no longer needs its directory. */
  release(user: string): void;
}

interface Shared {
  source: string;
  name: Promise<string>;
  users: number;
}

/** Maximum of unused directories. */
const MAX_UNUSED = 64;

/**
 * @param make creates the directory for a source and returns its name
 * @param remove removes a directory
 */
export function createSharedSets(
  make: (source: string, inTurns: InTurns) => Promise<string>,
  remove: (name: string) => void,
): SharedSets {
  const bySource = new Map<string, Shared>();
  const byUser = new Map<string, Shared>();
  /** Least recently used first. */
  const unused = new Set<Shared>();

  function forget(shared: Shared): void {
    if (bySource.get(shared.source) === shared) bySource.delete(shared.source);
    unused.delete(shared);
  }

  return {
    use(user, source, inTurns) {
      let shared = bySource.get(source);
      if (!shared) {
        const made: Shared = { source, name: make(source, inTurns), users: 0 };
        made.name.catch(() => forget(made));
        bySource.set(source, made);
        shared = made;
      }
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
      for (const oldest of unused) {
        if (unused.size <= MAX_UNUSED) break;
        forget(oldest);
        oldest.name.then(remove, () => {});
      }
    },
  };
}

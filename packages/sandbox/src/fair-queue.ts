/** A queue whose owners take turns: each gets one item per round, however many items another owner has. */
export interface FairQueue<T> {
  push(owner: string, item: T): void;
  /** The oldest item of the owner whose turn it is. */
  shift(): T | undefined;
  readonly size: number;
}

export function createFairQueue<T>(): FairQueue<T> {
  /** In order of their turns; only owners with items. */
  const owners = new Map<string, T[]>();
  let size = 0;
  return {
    push(owner, item) {
      const items = owners.get(owner);
      if (items) items.push(item);
      else owners.set(owner, [item]);
      size += 1;
    },
    shift() {
      const [next] = owners;
      if (!next) return undefined;
      const [owner, items] = next;
      const item = items.shift();
      size -= 1;
      owners.delete(owner);
      if (items.length > 0) owners.set(owner, items);
      return item;
    },
    get size() {
      return size;
    },
  };
}

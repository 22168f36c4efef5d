/** A queue whose owners take turns, so that many items of one delay another's by one item at most per turn. */
export interface FairQueue<T> {
  push(owner: string, item: T): void;
  /** The oldest item of the owner whose turn it is. */
  shift(): T | undefined;
  readonly size: number;
}

export function createFairQueue<T>(): FairQueue<T> {
  /** In the order of their turns; an owner without items is not in it. */
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

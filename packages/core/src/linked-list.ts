/** A first-in-first-out list from which any item can be removed in constant time. */
export interface LinkedList<T> {
  /** @returns a function that removes the item; further calls have no effect */
  append(item: T): () => void;
  /** The item that was appended first and is still in the list. */
  readonly first: T | undefined;
  readonly size: number;
  /** In order; the current item may be removed during the iteration. */
  [Symbol.iterator](): Iterator<T>;
}

interface Node<T> {
  item: T;
  previous: Node<T> | undefined;
  next: Node<T> | undefined;
}

export function createLinkedList<T>(): LinkedList<T> {
  let head: Node<T> | undefined;
  let tail: Node<T> | undefined;
  let size = 0;

  return {
    append(item) {
      const node: Node<T> = { item, previous: tail, next: undefined };
      if (tail) tail.next = node;
      else head = node;
      tail = node;
      size += 1;
      let removed = false;
      return () => {
        if (removed) return;
        removed = true;
        size -= 1;
        if (node.previous) node.previous.next = node.next;
        else head = node.next;
        if (node.next) node.next.previous = node.previous;
        else tail = node.previous;
      };
    },
    get first() {
      return head?.item;
    },
    get size() {
      return size;
    },
    *[Symbol.iterator]() {
      for (let node = head; node; node = node.next) yield node.item;
    },
  };
}

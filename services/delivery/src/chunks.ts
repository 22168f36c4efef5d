/** Items handled in one turn of the event loop, and their bytes. */
const CHUNK_SIZE = 64;
const CHUNK_BYTES = 1024 * 1024;

/** A chunk ends with the item that reaches one of the limits. */
export function* chunksOf<T>(items: Iterable<T>, sizeOf: (item: T) => number): Generator<T[]> {
  let chunk: T[] = [];
  let bytes = 0;
  for (const item of items) {
    chunk.push(item);
    bytes += sizeOf(item);
    if (chunk.length < CHUNK_SIZE && bytes < CHUNK_BYTES) continue;
    yield chunk;
    chunk = [];
    bytes = 0;
  }
  if (chunk.length > 0) yield chunk;
}

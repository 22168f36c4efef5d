/** Port `blob`: bytes that are kept for a while, and addresses that give them to whoever holds one. */
export interface Blob {
  /** Resolves with the id when the bytes are durable. They go after `ttlMs`. */
  put(
    bytes: Uint8Array,
    options: { ttlMs: number; contentType?: string; filename?: string },
  ): Promise<string>;
  get(
    id: string,
  ): Promise<{ bytes: Uint8Array; contentType: string; filename: string | undefined } | undefined>;
  remove(id: string): Promise<void>;
  /** Removes what is past its time; gives the number. */
  prune(now: number): Promise<number>;
  ping(): Promise<void>;
  close(): Promise<void>;
}

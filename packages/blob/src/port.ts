export interface StoredBlob {
  bytes: Uint8Array;
  contentType: string;
  filename: string | undefined;
  /** Epoch ms after which it is gone. */
  until: number;
}

/** Port `blob`: bytes that are kept for a while, and addresses that give them to whoever holds one. */
export interface Blob {
  /**
   * Resolves with the id when the bytes are durable. They go after `ttlMs`.
   * @param options.id of a blob that is moved here; one that is there already stays as it is
   */
  put(
    bytes: Uint8Array,
    options: { ttlMs: number; contentType?: string | undefined; filename?: string | undefined; id?: string },
  ): Promise<string>;
  get(id: string): Promise<StoredBlob | undefined>;
  /** The ids of those that are there. */
  list(): Promise<string[]>;
  remove(id: string): Promise<void>;
  /** Removes what is past its time; gives the number. */
  prune(now: number): Promise<number>;
  ping(): Promise<void>;
  close(): Promise<void>;
}

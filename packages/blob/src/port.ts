export interface StoredBlob {
  bytes: Uint8Array;
  contentType: string;
  filename: string | undefined;
  /** Epoch ms of the expiry. */
  until: number;
}

/** Port `blob`: temporary files with unguessable ids. */
export interface Blob {
  /**
   * Resolves with the id when the bytes are durable. They expire after `ttlMs`.
   * @param options.id for copies from another store; an existing blob is not overwritten
   */
  put(
    bytes: Uint8Array,
    options: { ttlMs: number; contentType?: string | undefined; filename?: string | undefined; id?: string },
  ): Promise<string>;
  get(id: string): Promise<StoredBlob | undefined>;
  /** Ids of all blobs that have not expired. */
  list(): Promise<string[]>;
  remove(id: string): Promise<void>;
  /** Removes expired blobs. @returns their number */
  prune(now: number): Promise<number>;
  ping(): Promise<void>;
  close(): Promise<void>;
}

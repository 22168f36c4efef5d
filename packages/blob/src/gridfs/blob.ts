import type { Clock } from '@wellspring/core/clock';
import { newSecret } from '@wellspring/core/ids';
import { GridFSBucket, type Mongo } from '@wellspring/mongodb/client';
import { translateErrors } from '@wellspring/mongodb/errors';
import type { Blob } from '../port.ts';

/** Other ids are not looked up. */
const ID = /^[a-z2-7]{32}$/;
/** Older uploads were interrupted. */
const MAX_UPLOAD_MS = 3_600_000;

interface Metadata {
  /** Epoch ms. */
  until: number;
  contentType: string;
  filename: string | null;
}

interface File {
  _id: string;
  metadata: Metadata;
}

interface Upload {
  _id: string;
  /** Epoch ms. */
  started_at: number;
}

/**
 * Blobs in the GridFS bucket `blobs`. A blob exists when its file document, written last, is durable; chunks of
 * interrupted uploads are tracked in `blobs.uploads` and pruned. `close` leaves the connection open.
 */
export function createGridFsBlob({ db, ping }: Mongo, { clock }: { clock: Clock }): Blob {
  const bucket = new GridFSBucket(db, { bucketName: 'blobs' });
  const files = db.collection<File>('blobs.files');
  const chunks = db.collection<{ files_id: string }>('blobs.chunks');
  const uploads = db.collection<Upload>('blobs.uploads');
  let indexed: Promise<unknown> | undefined;

  /** One after the other, before the first upload: concurrent creation of one collection fails. */
  async function makeIndexes(): Promise<void> {
    await translateErrors(files.createIndex({ 'metadata.until': 1 }));
    await translateErrors(uploads.createIndex({ started_at: 1 }));
    // Required by the GridFS specification.
    await translateErrors(chunks.createIndex({ files_id: 1, n: 1 }, { unique: true }));
  }

  function prepared(): Promise<unknown> {
    indexed ??= makeIndexes().catch((error) => {
      indexed = undefined;
      throw error;
    });
    return indexed;
  }

  function upload(id: string, bytes: Uint8Array, metadata: Metadata): Promise<void> {
    // The driver's types allow ObjectIds only.
    const stream = bucket.openUploadStreamWithId(id as never, '', { metadata });
    return new Promise((resolve, reject) => {
      stream.once('error', reject).once('finish', resolve).end(bytes);
    });
  }

  /** Undefined if it was removed in the meantime. */
  async function bytesOf(id: string): Promise<Uint8Array | undefined> {
    try {
      return Buffer.concat(await translateErrors(bucket.openDownloadStream(id as never).toArray()));
    } catch (error) {
      if (await translateErrors(files.findOne({ _id: id }))) throw error;
      return undefined;
    }
  }

  /** @returns false when it did not exist */
  async function removeFile(id: string): Promise<boolean> {
    const { deletedCount } = await translateErrors(files.deleteOne({ _id: id }));
    await translateErrors(chunks.deleteMany({ files_id: id }));
    return deletedCount === 1;
  }

  return {
    async put(bytes, { ttlMs, contentType = 'application/octet-stream', filename, id: given }) {
      await prepared();
      const id = given ?? newSecret();
      if (given !== undefined) {
        if (!ID.test(given)) throw new Error('Malformed blob id.');
        if (await translateErrors(files.findOne({ _id: given }))) return given;
        // Chunks of an interrupted upload of this id.
        await translateErrors(chunks.deleteMany({ files_id: given }));
      }
      const now = clock.now();
      await translateErrors(uploads.updateOne({ _id: id }, { $set: { started_at: now } }, { upsert: true }));
      await translateErrors(
        upload(id, bytes, { until: now + ttlMs, contentType, filename: filename ?? null }),
      );
      // A remaining entry is pruned and does not affect the blob.
      await translateErrors(uploads.deleteOne({ _id: id })).catch(() => {});
      return id;
    },
    async get(id) {
      const file = ID.test(id) ? await translateErrors(files.findOne({ _id: id })) : null;
      if (!file || file.metadata.until <= clock.now()) return undefined;
      const bytes = await bytesOf(id);
      const { contentType, filename, until } = file.metadata;
      return bytes && { bytes, contentType, filename: filename ?? undefined, until };
    },
    async list() {
      const found = files.find({ 'metadata.until': { $gt: clock.now() } }, { projection: { _id: 1 } });
      return (await translateErrors(found.toArray())).map(({ _id }) => _id);
    },
    async remove(id) {
      if (ID.test(id)) await removeFile(id);
    },
    async prune(now) {
      await prepared();
      const only = { projection: { _id: 1 } };
      const over = await translateErrors(files.find({ 'metadata.until': { $lte: now } }, only).toArray());
      let removed = 0;
      for (const { _id } of over) if (await removeFile(_id)) removed += 1;
      const cut = await translateErrors(
        uploads.find({ started_at: { $lte: now - MAX_UPLOAD_MS } }, only).toArray(),
      );
      for (const { _id } of cut) {
        if (!(await translateErrors(files.findOne({ _id }, only)))) {
          await translateErrors(chunks.deleteMany({ files_id: _id }));
        }
        await translateErrors(uploads.deleteOne({ _id }));
      }
      return removed;
    },
    ping,
    close: async () => {},
  };
}

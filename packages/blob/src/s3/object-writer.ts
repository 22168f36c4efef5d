import { PutObjectCommand } from '@aws-sdk/client-s3';
import { openS3 } from './client.ts';

/** Writes objects that users send to a store of the operator. */
export interface ObjectWriter {
  /**
   * Writes an object, once, without retries.
   * @param bucket may be undefined if the URL of the store names one; another one than that is refused
   * @returns bucket and key of the object
   * @throws Error with a message for the user
   */
  put(object: {
    bucket: string | undefined;
    key: string;
    bytes: Uint8Array;
    contentType: string;
    signal: AbortSignal;
  }): Promise<{ bucket: string; key: string }>;
  close(): void;
}

/** @param url `https://key:secret@host[/bucket[/prefix]][?region=…]` */
export function createObjectWriter(url: string): ObjectWriter {
  const { client, bucket: only, prefix } = openS3(url, { maxAttempts: 1 });
  return {
    async put({ bucket = only, key, bytes, contentType, signal }) {
      if (bucket === '') throw new Error('The bucket has to be named.');
      if (only !== '' && bucket !== only) {
        throw new Error(`The bucket ${bucket} is not the one that the platform is configured for.`);
      }
      const target = { Bucket: bucket, Key: prefix + key };
      await client.send(new PutObjectCommand({ ...target, Body: bytes, ContentType: contentType }), {
        abortSignal: signal,
      });
      return { bucket, key: target.Key };
    },
    close: () => client.destroy(),
  };
}

import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import type { Clock } from '@wellspring/core/clock';
import { newSecret } from '@wellspring/core/ids';
import { Unavailable } from '@wellspring/core/unavailable';
import type { Blob } from '../port.ts';
import { openS3 } from './client.ts';

export interface S3Target {
  /** URL of an existing bucket: `https://key:secret@host[:port]/bucket[/prefix][?region=…]`. */
  url: string;
  clock: Clock;
}

/** Other ids are not looked up. */
const ID = /^[a-z2-7]{32}$/;
/** Name of an object below the prefix: `<id>/<expiry>`, so that listings contain the expiry. */
const NAME = /^([a-z2-7]{32})\/(\d+)$/;
const PING_TIMEOUT_MS = 2_000;

/** Blobs as objects of an S3-compatible store. */
export function createS3Blob({ url, clock }: S3Target): Blob {
  const { client, bucket, prefix } = openS3(url);
  const at = (name: string) => ({ Bucket: bucket, Key: prefix + name });
  const nameOf = (id: string, until: number) => `${id}/${until}`;

  async function* list(namePrefix: string): AsyncGenerator<{ id: string; until: number }> {
    let after: string | undefined;
    for (;;) {
      const page = await translateErrors(
        client.send(
          new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix + namePrefix, ContinuationToken: after }),
        ),
      );
      for (const { Key = '' } of page.Contents ?? []) {
        const [, id, until] = NAME.exec(Key.slice(prefix.length)) ?? [];
        if (id !== undefined) yield { id, until: Number(until) };
      }
      after = page.NextContinuationToken;
      if (after === undefined) return;
    }
  }

  /** Expiry of a blob; undefined if it does not exist. */
  async function untilOf(id: string): Promise<number | undefined> {
    if (!ID.test(id)) return undefined;
    for await (const { until } of list(`${id}/`)) return until;
    return undefined;
  }

  const removeObject = (id: string, until: number) =>
    translateErrors(client.send(new DeleteObjectCommand(at(nameOf(id, until)))));

  return {
    async put(bytes, { ttlMs, contentType = 'application/octet-stream', filename, id: given }) {
      if (given !== undefined && !ID.test(given)) throw new Error('Malformed blob id.');
      if (given !== undefined && (await untilOf(given)) !== undefined) return given;
      const id = given ?? newSecret();
      await translateErrors(
        client.send(
          new PutObjectCommand({
            ...at(nameOf(id, clock.now() + ttlMs)),
            Body: bytes,
            ContentType: contentType,
            // Headers are limited to ASCII.
            ...(filename !== undefined && { Metadata: { filename: encodeURIComponent(filename) } }),
          }),
        ),
      );
      return id;
    },
    async get(id) {
      const until = await untilOf(id);
      if (until === undefined || until <= clock.now()) return undefined;
      const found = await translateErrors(client.send(new GetObjectCommand(at(nameOf(id, until))))).catch(
        orGone,
      );
      if (!found) return undefined;
      const filename = found.Metadata?.filename;
      return {
        bytes: await translateErrors(found.Body!.transformToByteArray()),
        contentType: found.ContentType ?? 'application/octet-stream',
        filename: filename === undefined ? undefined : decodeURIComponent(filename),
        until,
      };
    },
    async list() {
      const ids: string[] = [];
      for await (const { id, until } of list('')) if (until > clock.now()) ids.push(id);
      return ids;
    },
    async remove(id) {
      const until = await untilOf(id);
      if (until !== undefined) await removeObject(id, until);
    },
    async prune(now) {
      let removed = 0;
      for await (const { id, until } of list('')) {
        if (until > now) continue;
        await removeObject(id, until);
        removed += 1;
      }
      return removed;
    },
    async ping() {
      const abortSignal = AbortSignal.timeout(PING_TIMEOUT_MS);
      await translateErrors(client.send(new HeadBucketCommand({ Bucket: bucket }), { abortSignal }));
    },
    async close() {
      client.destroy();
    },
  };
}

interface Refusal {
  name?: string;
  message?: string;
  $metadata?: { httpStatusCode?: number };
}

/** @throws Unavailable when the store does not answer, answers 429 or 5xx, or refuses the bucket or the credentials */
async function translateErrors<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const { name, message, $metadata } = error as Refusal;
    const status = $metadata?.httpStatusCode;
    // An operator can create the bucket, or grant the right.
    if (name === 'NoSuchBucket' || status === 403)
      throw new Unavailable(`S3 refuses the request: ${message}`, { cause: error });
    // Without a status, no server answered.
    if (status !== undefined && status < 500 && status !== 429) throw error;
    throw new Unavailable(`S3 does not answer: ${message}`, { cause: error });
  }
}

function orGone(error: unknown): undefined {
  if ((error as Refusal).name === 'NoSuchKey') return undefined;
  throw error;
}

import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import type { Clock } from '@wellspring/core/clock';
import { newSecret } from '@wellspring/core/ids';
import { Unavailable } from '@wellspring/core/unavailable';
import type { Blob } from './port.ts';

export interface S3Target {
  /** Of the bucket, which is there: `https://key:secret@host[:port]/bucket[/prefix][?region=…]`. */
  url: string;
  clock: Clock;
}

/** Ids are ours: nothing else is looked for. */
const ID = /^[a-z2-7]{32}$/;
/** The name of an object, below the prefix: its id, and when it is over, so that a listing tells. */
const NAME = /^([a-z2-7]{32})\/(\d+)$/;
const REGION = 'us-east-1';
const CONNECT_MS = 2_000;
const ANSWER_MS = 10_000;
const PING_MS = 2_000;

/** Blobs as objects of a bucket in a store that speaks the protocol of S3; one request writes one, whole or not at all. */
export function createS3Blob({ url, clock }: S3Target): Blob {
  const { client, bucket, prefix } = open(url);
  const at = (name: string) => ({ Bucket: bucket, Key: prefix + name });
  const nameOf = (id: string, until: number) => `${id}/${until}`;

  /** The objects whose names begin so. */
  async function* find(beginning: string): AsyncGenerator<{ id: string; until: number }> {
    for (let after: string | undefined; ; ) {
      const page = await answered(
        client.send(
          new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix + beginning, ContinuationToken: after }),
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

  /** When it is over; undefined: there is none. */
  async function untilOf(id: string): Promise<number | undefined> {
    if (!ID.test(id)) return undefined;
    for await (const { until } of find(`${id}/`)) return until;
    return undefined;
  }

  const removeObject = (id: string, until: number) =>
    answered(client.send(new DeleteObjectCommand(at(nameOf(id, until)))));

  return {
    async put(bytes, { ttlMs, contentType = 'application/octet-stream', filename, id: given }) {
      if (given !== undefined && !ID.test(given)) throw new Error('no id of a blob');
      if (given !== undefined && (await untilOf(given)) !== undefined) return given;
      const id = given ?? newSecret();
      await answered(
        client.send(
          new PutObjectCommand({
            ...at(nameOf(id, clock.now() + ttlMs)),
            Body: bytes,
            ContentType: contentType,
            // A header takes no other characters.
            ...(filename !== undefined && { Metadata: { filename: encodeURIComponent(filename) } }),
          }),
        ),
      );
      return id;
    },
    async get(id) {
      const until = await untilOf(id);
      if (until === undefined || until <= clock.now()) return undefined;
      const found = await answered(client.send(new GetObjectCommand(at(nameOf(id, until))))).catch(orGone);
      if (!found) return undefined;
      const filename = found.Metadata?.filename;
      return {
        bytes: await answered(found.Body!.transformToByteArray()),
        contentType: found.ContentType ?? 'application/octet-stream',
        filename: filename === undefined ? undefined : decodeURIComponent(filename),
        until,
      };
    },
    async list() {
      const ids: string[] = [];
      for await (const { id, until } of find('')) if (until > clock.now()) ids.push(id);
      return ids;
    },
    async remove(id) {
      const until = await untilOf(id);
      if (until !== undefined) await removeObject(id, until);
    },
    async prune(now) {
      let removed = 0;
      for await (const { id, until } of find('')) {
        if (until > now) continue;
        await removeObject(id, until);
        removed += 1;
      }
      return removed;
    },
    async ping() {
      const abortSignal = AbortSignal.timeout(PING_MS);
      await answered(client.send(new HeadBucketCommand({ Bucket: bucket }), { abortSignal }));
    },
    async close() {
      client.destroy();
    },
  };
}

function open(url: string) {
  const { protocol, host, pathname, username, password, searchParams } = new URL(url);
  const [bucket = '', ...folders] = pathname.split('/').filter(Boolean).map(decodeURIComponent);
  const client = new S3Client({
    endpoint: `${protocol}//${host}`,
    region: searchParams.get('region') ?? REGION,
    forcePathStyle: true,
    credentials: {
      accessKeyId: decodeURIComponent(username),
      secretAccessKey: decodeURIComponent(password),
    },
    // Not every store knows checksums that are newer than the protocol.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: ANSWER_MS, throwOnRequestTimeout: true },
  });
  return { client, bucket, prefix: folders.map((folder) => `${folder}/`).join('') };
}

interface Refusal {
  name?: string;
  message?: string;
  $metadata?: { httpStatusCode?: number };
}

/** @throws Unavailable when the store does not answer, or says that it cannot at the moment */
async function answered<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const { message, $metadata } = error as Refusal;
    const status = $metadata?.httpStatusCode;
    // What no server answered has no status.
    if (status !== undefined && status < 500 && status !== 429) throw error;
    throw new Unavailable(`S3 does not answer: ${message}`, { cause: error });
  }
}

function orGone(error: unknown): undefined {
  if ((error as Refusal).name === 'NoSuchKey') return undefined;
  throw error;
}

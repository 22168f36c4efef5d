import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import type { ConsumeMessage } from '@wellspring/amqp/channel';
import { type Message, REDELIVERED } from '@wellspring/amqp/publisher';

/** What travels through a partition: a job, or what takes jobs out of it. */
export interface JobMessage {
  /** Of the job, over all its deliveries. */
  id: string;
  key: string;
  /** Epoch ms of the publication. */
  at: number;
  /** Instead of a job: what is before it of this key, and of its lanes, is dropped. */
  purge: boolean;
  payload: string;
  /** It is a copy, or was delivered before: it may have been handled, however long ago. */
  redelivered?: true | undefined;
}

/** Larger ones are worth the time that it takes; what is close to the broker's limit gets below it. */
const COMPRESSED_BYTES = 256 * 1024;
const ENCODING = 'zstd';

/** @param queue of the broker */
export function toMessage(queue: string, { id, key, at, purge, payload }: JobMessage): Message {
  const plain = Buffer.from(payload);
  const isLarge = plain.length >= COMPRESSED_BYTES;
  return {
    routingKey: queue,
    content: isLarge ? zstdCompressSync(plain) : plain,
    options: {
      persistent: true,
      mandatory: true,
      messageId: id,
      headers: { key, at, ...(purge && { purge }) },
      ...(isLarge && { contentEncoding: ENCODING }),
    },
  };
}

/** @throws Error for what is none of ours */
export function fromMessage({ fields, properties, content }: ConsumeMessage): JobMessage {
  const { messageId: id, headers, contentEncoding } = properties;
  const { key, at, purge, [REDELIVERED]: redelivered } = (headers ?? {}) as Record<string, unknown>;
  if (typeof id !== 'string' || typeof key !== 'string' || typeof at !== 'number') {
    throw new Error('a message that is no job');
  }
  const plain = contentEncoding === ENCODING ? zstdDecompressSync(content) : content;
  const job = { id, key, at, purge: purge === true, payload: plain.toString() };
  return redelivered === true || fields.redelivered ? { ...job, redelivered: true } : job;
}

import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import type { ConsumeMessage } from '@wellspring/amqp/channel';
import { type Message, REDELIVERED } from '@wellspring/amqp/publisher';

/** A job as a message of a partition. */
export interface JobMessage {
  /** Id of the job, the same in all its deliveries. */
  id: string;
  key: string;
  /** Epoch ms of the publication. */
  at: number;
  payload: string;
  /** Possible duplicate of a job that was handled before. */
  redelivered?: true | undefined;
}

/** Payloads of this size are compressed, also to stay below the broker's message limit. */
const MIN_COMPRESSED_BYTES = 256 * 1024;
const ENCODING = 'zstd';

/** @param queue name of the broker's queue */
export function toMessage(queue: string, { id, key, at, payload, redelivered }: JobMessage): Message {
  const plain = Buffer.from(payload);
  const isLarge = plain.length >= MIN_COMPRESSED_BYTES;
  return {
    routingKey: queue,
    key,
    content: isLarge ? zstdCompressSync(plain) : plain,
    options: {
      persistent: true,
      mandatory: true,
      messageId: id,
      headers: { key, at, ...(redelivered && { [REDELIVERED]: true }) },
      ...(isLarge && { contentEncoding: ENCODING }),
    },
  };
}

/** @throws Error when the message is malformed */
export function fromMessage({ fields, properties, content }: ConsumeMessage): JobMessage {
  const { messageId: id, headers, contentEncoding } = properties;
  const { key, at, [REDELIVERED]: redelivered } = (headers ?? {}) as Record<string, unknown>;
  if (typeof id !== 'string' || typeof key !== 'string' || typeof at !== 'number') {
    throw new Error('Malformed job message: it needs an id, a key and a time.');
  }
  const plain = contentEncoding === ENCODING ? zstdDecompressSync(content) : content;
  const job = { id, key, at, payload: plain.toString() };
  return redelivered === true || fields.redelivered ? { ...job, redelivered: true } : job;
}

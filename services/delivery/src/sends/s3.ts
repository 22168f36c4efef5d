import { createHash } from 'node:crypto';
import type { ObjectWriter } from '@wellspring/blob/object-writer';
import { bytesOf, SendError, type SendOne, sendWithin, textOf } from './arguments.ts';

const CALL = '$.send.s3';
const MAX_KEY_BYTES = 900;

/**
 * `{bucket, prefix?, payload}`: writes the object `<prefix>yyyy/mm/dd/hh/<id>`. A name is never given twice, so that no
 * object is replaced.
 */
export function createS3Send(writer: ObjectWriter | undefined, timeoutMs: number): SendOne {
  return async (request, { id, at, ended }) => {
    if (!writer) {
      throw new SendError(`${CALL} is not configured: the operator sets WELLSPRING_SEND_S3_URL.`);
    }
    const [bucket, prefix = ''] = ['bucket', 'prefix'].map((name) => textOf(request, CALL, name));
    if (bucket !== undefined && !/^[a-zA-Z0-9][a-zA-Z0-9._-]{1,254}$/.test(bucket)) {
      throw new SendError(`bucket of ${CALL} is not the name of a bucket.`);
    }
    if (Buffer.byteLength(prefix) > MAX_KEY_BYTES) {
      throw new SendError(`prefix of ${CALL} is longer than ${MAX_KEY_BYTES} bytes.`);
    }
    if (request.payload === undefined) throw new SendError(`${CALL} needs a payload.`);
    const { body, type, extension } = contentOf(request.payload);
    const hour = new Date(at).toISOString().slice(0, 13).replace(/[-T]/g, '/');
    const name = createHash('sha256').update(id).digest('hex').slice(0, 32);
    const object = { bucket, key: `${prefix}${hour}/${name}${extension}`, bytes: body, contentType: type };
    const limits = { timeoutMs, ended, failed: `${CALL} failed: the object could not be stored` };
    await sendWithin(limits, (signal) => writer.put({ ...object, signal }));
  };
}

function contentOf(payload: unknown): { body: Uint8Array; type: string; extension: string } {
  const bytes = bytesOf(payload);
  if (bytes) return { body: bytes, type: 'application/octet-stream', extension: '' };
  if (typeof payload === 'string') {
    return { body: Buffer.from(payload), type: 'text/plain; charset=utf-8', extension: '.txt' };
  }
  return { body: Buffer.from(JSON.stringify(payload)), type: 'application/json', extension: '.json' };
}

import type { ServerResponse } from 'node:http';
import type { IdempotencyRow } from '@wellspring/store/collections/idempotency';

export type StoredResponse = NonNullable<IdempotencyRow['response']>;

/**
 * Calls `onEnd` with the complete response before its last byte is sent, also if the client has disconnected; with
 * undefined unless the response is a success.
 */
export function captureResponse(
  res: ServerResponse,
  onEnd: (response: StoredResponse | undefined) => Promise<void>,
): void {
  const chunks: Buffer[] = [];
  const { write, end } = res;
  let ended = false;
  const collect = (chunk: unknown) => {
    if (typeof chunk === 'string' || chunk instanceof Uint8Array) chunks.push(Buffer.from(chunk as string));
  };
  res.write = ((...args: Parameters<typeof write>) => {
    collect(args[0]);
    return write.apply(res, args);
  }) as typeof res.write;
  res.end = ((...args: Parameters<typeof end>) => {
    if (ended) return res;
    ended = true;
    collect(args[0]);
    const success = res.statusCode >= 200 && res.statusCode < 300;
    const type = res.getHeader('content-type');
    const headers: Record<string, string> = type === undefined ? {} : { 'content-type': String(type) };
    const response = {
      status: res.statusCode,
      headers,
      body: Buffer.concat(chunks.splice(0)).toString('utf8'),
    };
    void onEnd(success ? response : undefined).then(() => end.apply(res, args));
    return res;
  }) as typeof res.end;
}

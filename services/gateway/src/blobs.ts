import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createHold, type Hold } from '@wellspring/core/byte-budget';
import { createFairPermits, withPermit } from '@wellspring/core/fair-permits';
import { newId } from '@wellspring/core/ids';
import { unavailable } from '@wellspring/core/problem';
import { onceClosed } from '@wellspring/http/once-closed';
import { sendProblem } from '@wellspring/http/problem-response';
import type { Deps } from '@wellspring/runtime/deps';

const PATH = /^\/blobs\/([a-z0-9_-]{16,80})\?until=(\d{13})&owner=(\w{1,40})&signature=([\w-]{43})$/;
/** Blobs that are read at a time, before their size is known. */
const READS = 4;

const sign = (key: Buffer, parts: readonly string[]) =>
  createHmac('sha256', key).update(parts.join('.')).digest('base64url');

/** A signed URL of an owner's blob, valid until `until` (epoch ms). */
export function blobUrl(
  { config, seal }: Pick<Deps, 'config' | 'seal'>,
  { id, ownerId, until }: { id: string; ownerId: string; until: number },
): string {
  const signature = sign(seal.keysFor('blob-url')[0]!, [id, String(until), ownerId]);
  return `${config.publicUrl}/blobs/${id}?until=${until}&owner=${ownerId}&signature=${signature}`;
}

/** Serves `/blobs/{id}`. Returns false for other requests. */
export function createBlobs({
  blob,
  clock,
  seal,
  memory,
  log,
}: Pick<Deps, 'blob' | 'clock' | 'seal' | 'memory' | 'log'>) {
  const reads = createFairPermits({ total: READS });

  /** Blob and owner of a valid address. */
  function locate(url = ''): { id: string; owner: string } | undefined {
    const [, id = '', until = '', owner = '', given = ''] = PATH.exec(url) ?? [];
    if (!(Number(until) > clock.now())) return undefined;
    const isSigned = seal
      .keysFor('blob-url')
      .some((key) => timingSafeEqual(Buffer.from(sign(key, [id, until, owner])), Buffer.from(given)));
    return isSigned ? { id, owner } : undefined;
  }

  return (req: IncomingMessage, res: ServerResponse): boolean => {
    if (!req.url?.startsWith('/blobs/')) return false;
    req.resume();
    const found = req.method === 'GET' || req.method === 'HEAD' ? locate(req.url) : undefined;
    if (!found) {
      text(res, 404, 'Not Found');
      return true;
    }
    const hold = createHold(memory.replies, found.owner);
    serve(req, res, found, hold)
      .catch((error: unknown) => sendProblem(res, error, { requestId: newId('req'), log }))
      // The client may have left before, or may take the bytes slowly.
      .finally(() => onceClosed(res, hold.release));
    return true;
  };

  async function serve(
    { method }: IncomingMessage,
    res: ServerResponse,
    { id, owner }: { id: string; owner: string },
    hold: Hold,
  ): Promise<void> {
    const found = await withPermit(reads, owner, () => blob.get(id));
    if (!found) return text(res, 404, 'Not Found');
    const isHead = method === 'HEAD';
    if (!isHead && !hold.take(found.bytes.length)) {
      return text(res, 503, 'Service Unavailable', unavailable().headers);
    }
    res.writeHead(200, {
      'content-type': 'application/octet-stream',
      'content-length': found.bytes.length,
      // A browser must not render uploaded files as pages of this origin.
      'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(found.filename ?? 'file')}`,
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; sandbox",
    });
    res.end(isHead ? undefined : found.bytes);
  }
}

function text(res: ServerResponse, status: number, body: string, headers = {}): void {
  res.writeHead(status, { 'content-type': 'text/plain', ...headers }).end(body);
}

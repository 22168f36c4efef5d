import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Deps } from '@wellspring/runtime/deps';

const PATH = /^\/blobs\/([a-z0-9_-]{16,80})\?until=(\d{13})&signature=([\w-]{43})$/;

const sign = (key: Buffer, id: string, until: number) =>
  createHmac('sha256', key).update(`${id}.${until}`).digest('base64url');

/** A signed URL of a blob, valid until `until` (epoch ms). */
export function blobUrl({ config, seal }: Pick<Deps, 'config' | 'seal'>, id: string, until: number): string {
  return `${config.publicUrl}/blobs/${id}?until=${until}&signature=${sign(seal.keysFor('blob-url')[0]!, id, until)}`;
}

/** Serves `/blobs/{id}`. Returns false for other requests. */
export function createBlobs({ blob, clock, seal }: Pick<Deps, 'blob' | 'clock' | 'seal'>) {
  const valid = (id: string, until: number, signature: string) =>
    until > clock.now() &&
    seal
      .keysFor('blob-url')
      .some((key) => timingSafeEqual(Buffer.from(sign(key, id, until)), Buffer.from(signature)));

  return (req: IncomingMessage, res: ServerResponse): boolean => {
    if (!req.url?.startsWith('/blobs/')) return false;
    req.resume();
    serve(req, res).catch(() => (res.headersSent ? res.destroy() : res.writeHead(500).end()));
    return true;
  };

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const match = PATH.exec(req.url ?? '');
    const found =
      match && valid(match[1]!, Number(match[2]), match[3]!) ? await blob.get(match[1]!) : undefined;
    if (!found || (req.method !== 'GET' && req.method !== 'HEAD')) {
      res.writeHead(404, { 'content-type': 'text/plain' }).end('Not Found');
      return;
    }
    res.writeHead(200, {
      'content-type': 'application/octet-stream',
      'content-length': found.bytes.length,
      // A browser must not render uploaded files as pages of this origin.
      'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(found.filename ?? 'file')}`,
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; sandbox",
    });
    res.end(req.method === 'HEAD' ? undefined : found.bytes);
  }
}

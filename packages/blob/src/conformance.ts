import { randomBytes } from 'node:crypto';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { forEachTest } from '@wellspring/testing/lifetimes';
import type { Blob } from './port.ts';

/** Blobs under test, with their clock. */
export interface BlobSubject {
  blob: Blob;
  now(): number;
  advance(ms: number): Promise<void>;
  /** The blobs as another process finds them. */
  reopen(): Promise<Blob>;
  close(): Promise<void>;
}

/** Conformance suite of the port, for every adapter. */
export function blobConformance(name: string, open: () => Promise<BlobSubject>): void {
  describe(`blob: ${name}`, () => {
    const subject = forEachTest(open);
    let blob: Blob;
    beforeEach(() => {
      blob = subject.blob;
    });

    const bytesOf = async (id: string, of = blob) => {
      const found = await of.get(id);
      return found && Buffer.from(found.bytes);
    };

    test('bytes are stored unchanged', async () => {
      for (const bytes of [
        Buffer.alloc(0),
        Buffer.from('\n{"until":1}\n\n'),
        randomBytes(3_000_000),
        new Uint8Array([0, 255, 10]),
      ]) {
        expect(Buffer.compare((await bytesOf(await blob.put(bytes, { ttlMs: 1000 })))!, bytes)).toBe(0);
      }
    });

    test('content type and filename are stored; the default type is application/octet-stream', async () => {
      const filename = '../../é "quoted"\n\0.pdf';
      const named = await blob.put(Buffer.from('a'), {
        ttlMs: 1000,
        contentType: 'text/plain; charset=utf-8',
        filename,
      });
      expect(await blob.get(named)).toMatchObject({ contentType: 'text/plain; charset=utf-8', filename });
      const plain = await blob.put(Buffer.from('a'), { ttlMs: 1000 });
      expect(await blob.get(plain)).toMatchObject({
        contentType: 'application/octet-stream',
        filename: undefined,
      });
    });

    test('existing blobs are listed, and can be copied under their id repeatedly', async () => {
      const over = await blob.put(Buffer.from('over'), { ttlMs: 10 });
      const kept = await blob.put(Buffer.from('kept'), { ttlMs: 1000, filename: 'a.txt' });
      await subject.advance(20);
      expect(await blob.list()).toEqual([kept]);
      const { bytes, until, contentType, filename } = (await blob.get(kept))!;
      expect(until).toBeGreaterThan(subject.now());
      await blob.remove(kept);
      for (const content of [bytes, Buffer.from('too late')]) {
        const ttlMs = until - subject.now();
        expect(await blob.put(content, { ttlMs, contentType, filename, id: kept })).toBe(kept);
      }
      expect(await bytesOf(kept)).toEqual(Buffer.from('kept'));
      expect(await blob.get(kept)).toMatchObject({ filename: 'a.txt' });
      expect(await bytesOf(over)).toBeUndefined();
      await expect(blob.put(bytes, { ttlMs: 10, id: '../etc/passwd' })).rejects.toThrow('id');
    });

    test('every blob has a unique, unguessable id', async () => {
      const ids = await Promise.all(
        Array.from({ length: 20 }, () => blob.put(Buffer.from('a'), { ttlMs: 1000 })),
      );
      expect(new Set(ids).size).toBe(20);
      for (const id of ids) expect(id).toMatch(/^[a-z0-9]{26,}$/i);
    });

    test('a malformed id finds and removes nothing', async () => {
      const id = await blob.put(Buffer.from('a'), { ttlMs: 1000 });
      for (const other of [
        '',
        '.',
        '..',
        '/etc/passwd',
        '../data',
        `./${id}`,
        `${id}/`,
        `${id}\0`,
        id.toUpperCase(),
        `${id}.part`,
        'x'.repeat(5000),
        '\ud800',
      ]) {
        if (other === id) continue;
        expect(await blob.get(other)).toBeUndefined();
        await blob.remove(other);
      }
      expect(await bytesOf(id)).toEqual(Buffer.from('a'));
    });

    test('remove is idempotent', async () => {
      const id = await blob.put(Buffer.from('a'), { ttlMs: 1000 });
      await blob.remove(id);
      await blob.remove(id);
      expect(await blob.get(id)).toBeUndefined();
    });

    test('an expired blob is not returned, and is pruned', async () => {
      const short = await blob.put(Buffer.from('short'), { ttlMs: 1000 });
      const long = await blob.put(Buffer.from('long'), { ttlMs: 5000 });
      expect(await blob.prune(subject.now())).toBe(0);
      await subject.advance(1000);
      expect(await blob.get(short)).toBeUndefined();
      expect(await bytesOf(long)).toEqual(Buffer.from('long'));
      expect(await blob.prune(subject.now())).toBe(1);
      expect(await blob.prune(subject.now())).toBe(0);
      expect(await bytesOf(long)).toEqual(Buffer.from('long'));
    });

    test('prune does not affect blobs being written', async () => {
      const puts = Array.from({ length: 8 }, (_, n) => blob.put(Buffer.alloc(500_000, n), { ttlMs: 1000 }));
      for (let i = 0; i < 20; i++) expect(await blob.prune(subject.now())).toBe(0);
      for (const [n, id] of (await Promise.all(puts)).entries()) expect((await bytesOf(id))?.[0]).toBe(n);
    });

    test('another process finds the blob', async () => {
      const id = await blob.put(Buffer.from('a'), { ttlMs: 1000 });
      expect(await bytesOf(id, await subject.reopen())).toEqual(Buffer.from('a'));
      await blob.ping();
    });
  });
}

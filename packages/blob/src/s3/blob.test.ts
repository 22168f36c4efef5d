import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { openNetwork } from '@wellspring/testing/network';
import { withServers } from '@wellspring/testing/servers/servers';
import { blobConformance } from '../conformance.ts';
import type { Blob } from '../port.ts';
import { createS3Blob } from './blob.ts';

await withServers(['s3'], ({ s3 }) => {
  /** Creates the bucket; moto requires no permission. */
  async function bucketOf(url: string): Promise<string> {
    const { origin } = new URL(url);
    const name = `test-${randomUUID()}`;
    expect((await fetch(`${origin}/${name}`, { method: 'PUT' })).status).toBe(200);
    return Object.assign(new URL(url), { pathname: `/${name}/some/folder` }).href;
  }

  async function open() {
    const url = await bucketOf(s3);
    const clock = createFakeClock();
    const opened: Blob[] = [];
    const make = () => {
      const blob = createS3Blob({ url, clock });
      opened.push(blob);
      return blob;
    };
    return {
      blob: make(),
      now: clock.now,
      advance: clock.advance,
      reopen: async () => make(),
      async close() {
        for (const one of opened) await one.close();
      },
    };
  }

  blobConformance('s3', open);

  test('filenames in any script are stored', async () => {
    const { blob, close } = await open();
    const id = await blob.put(Buffer.from('x'), { ttlMs: 1_000, filename: 'Übung 1 – 測試.txt' });
    expect((await blob.get(id))?.filename).toBe('Übung 1 – 測試.txt');
    await close();
  });

  test('an unreachable store is Unavailable, and is used when it is back', async () => {
    await using network = await openNetwork(await bucketOf(s3));
    const blob = createS3Blob({ url: network.url, clock: createFakeClock() });
    const id = await blob.put(Buffer.from('x'), { ttlMs: 1_000 });
    network.silence();
    await expect(blob.ping()).rejects.toThrow(Unavailable);
    network.heal();
    expect((await blob.get(id))?.bytes).toEqual(new Uint8Array(Buffer.from('x')));
    await blob.close();
  }, 90_000);

  test('a missing bucket is Unavailable, with the cause: it may be created later', async () => {
    const url = Object.assign(new URL(s3), { pathname: `/missing-${randomUUID()}` }).href;
    const blob = createS3Blob({ url, clock: createFakeClock() });
    const put = blob.put(Buffer.from('x'), { ttlMs: 1_000 });
    await expect(put).rejects.toThrow(/^S3 refuses the request: .*bucket/);
    await expect(put).rejects.toThrow(Unavailable);
    await blob.close();
  });
});

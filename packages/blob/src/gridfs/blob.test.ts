import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { openMongo } from '@wellspring/mongodb/client';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { withServers } from '@wellspring/testing/servers/servers';
import { blobConformance } from '../conformance.ts';
import { createGridFsBlob } from './blob.ts';

await withServers(['mongodb'], ({ mongodb }) => {
  async function open() {
    const target = { url: mongodb, database: `test-${randomUUID()}`, log: silentLog };
    const opened = [await openMongo(target)];
    const [mongo] = opened as [(typeof opened)[0]];
    const clock = createFakeClock();
    return {
      blob: createGridFsBlob(mongo, { clock }),
      db: mongo.db,
      now: clock.now,
      advance: clock.advance,
      async reopen() {
        const another = await openMongo(target);
        opened.push(another);
        return createGridFsBlob(another, { clock });
      },
      async close() {
        await mongo.db.dropDatabase();
        for (const one of opened) await one.close();
      },
    };
  }

  blobConformance('gridfs', open);

  test('remove deletes all documents of a blob', async () => {
    const { blob, db, close } = await open();
    const id = await blob.put(Buffer.alloc(600_000), { ttlMs: 1000 });
    expect(await db.collection('blobs.chunks').countDocuments()).toBe(3);
    await blob.remove(id);
    for (const name of ['files', 'chunks', 'uploads']) {
      expect([name, await db.collection(`blobs.${name}`).countDocuments()]).toEqual([name, 0]);
    }
    await close();
  });

  test('chunks of an interrupted upload are pruned after an hour; blobs with a remaining upload entry are not', async () => {
    const { blob, db, now, advance, close } = await open();
    const id = await blob.put(Buffer.from('whole'), { ttlMs: 10_000_000 });
    const torn = 'b'.repeat(32);
    const chunks = db.collection<{ files_id: string; n: number }>('blobs.chunks');
    await chunks.insertOne({ files_id: torn, n: 0 });
    for (const _id of [id, torn]) {
      await db.collection<{ _id: string; started_at: number }>('blobs.uploads').insertOne({
        _id,
        started_at: now(),
      });
    }
    expect(await blob.get(torn)).toBeUndefined();
    await blob.prune(now());
    expect(await chunks.countDocuments({ files_id: torn })).toBe(1);
    await advance(3_600_000);
    await blob.prune(now());
    expect(await chunks.countDocuments({ files_id: torn })).toBe(0);
    expect(await db.collection('blobs.uploads').countDocuments()).toBe(0);
    expect(Buffer.from((await blob.get(id))!.bytes).toString()).toBe('whole');
    await close();
  });
});

import { expect, test } from '@jest/globals';
import { withServers } from '@wellspring/testing/servers/servers';
import { currentRevision } from '../collections/revisions.ts';
import { thing, things } from '../conformance-subject.ts';
import type { Store } from '../port.ts';
import { openMongoSubject } from './store.fixture.ts';

const WRITES = 20;
const counted = { ...things, revision: { of: 'things' } };
const current = (store: Store) => currentRevision(store, 'things');

await withServers(['mongodb'], ({ mongodb }) => {
  test('a read contains every write of another process that had resolved before it', async () => {
    const writer = await openMongoSubject(mongodb);
    const reader = await writer.another();
    const rows = writer.store.collection(counted);
    const seen: number[] = [];
    for (let n = 1; n <= WRITES; n++) {
      // Its lease is in force during the write.
      await current(reader.store);
      await rows.insert(thing(`t${n}`));
      seen.push(await current(reader.store));
    }
    expect(seen).toEqual(Array.from({ length: WRITES }, (_, index) => index + 1));
    await writer.close();
  });

  test('reads at the same time are one statement, and a failed one is repeated', async () => {
    let isBroken = true;
    const subject = await openMongoSubject(mongodb, {
      fails: (text) => isBroken && text === 'find revisions',
    });
    const twice = () => Promise.allSettled([current(subject.store), current(subject.store)]);
    const failed = { status: 'rejected', reason: new Error('stopped before find revisions') };
    expect(await twice()).toMatchObject([failed, failed]);
    isBroken = false;
    const found = { status: 'fulfilled', value: 0 };
    expect(await twice()).toEqual([found, found]);
    expect(subject.sent.filter((text) => text === 'find revisions')).toHaveLength(1);
    await subject.close();
  });
});

import { expect, test } from '@jest/globals';
import { withServers } from '@wellspring/testing/servers/servers';
import { currentRevision } from '../collections/revisions.ts';
import { thing, things } from '../conformance-subject.ts';
import { findOrInsert } from '../insert-new.ts';
import { openMongoSubject } from './store.fixture.ts';

await withServers(['mongodb'], ({ mongodb }) => {
  test('a row that is found raises the revision, since its insert may have failed to', async () => {
    let isBroken = true;
    const fails = (statement: string) => isBroken && statement === 'update revisions';
    const subject = await openMongoSubject(mongodb, { fails });
    const rows = subject.store.collection({ ...things, revision: { of: 'things' } });
    const create = (id: string) => findOrInsert(rows, { name: 'one' }, () => thing(id, { name: 'one' }));
    await expect(create('a')).rejects.toThrow('stopped before update revisions');
    isBroken = false;
    const before = await currentRevision(subject.store, 'things');
    expect(await create('b')).toMatchObject({ id: 'a' });
    expect(await currentRevision(subject.store, 'things')).toBeGreaterThan(before);
    await subject.close();
  });
});

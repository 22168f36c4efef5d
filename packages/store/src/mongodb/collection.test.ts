import { expect, test } from '@jest/globals';
import { withServers } from '@wellspring/testing/servers/servers';
import { type CollectionDefinition, ConflictError } from '../port.ts';
import { type MongoSubject, useMongoSubjects } from './store.fixture.ts';

interface Note {
  id: string;
  owner: string | null;
  title?: string;
  rank: number;
}

const note = (id: string, rest: Partial<Note> = {}): Note => ({ id, owner: 'o', rank: 0, ...rest });
const notes = (indexes: CollectionDefinition<Note>['indexes']) => ({ name: 'notes', indexes });
const PLAIN = notes([{ fields: ['owner'] }, { fields: ['rank'] }]);

await withServers(['mongodb'], ({ mongodb }) => {
  const open = useMongoSubjects(mongodb);

  const indexNames = async ({ mongo }: MongoSubject) =>
    (await mongo.db.collection('notes').indexes()).map(({ name }) => name).sort();

  test('indexes may be added and made unique, existing rows conflict, too; only the command drops an index', async () => {
    const subject = await open();
    const first = subject.store.collection(PLAIN);
    await first.insertMany(Array.from({ length: 1200 }, (_, n) => note(`n${n}`, { title: `t${n}` })));
    await first.insert(note('none', { owner: null, title: 't7' }));
    expect(await indexNames(subject)).toEqual(['_id_', 'i_owner', 'i_rank']);

    const { store } = await subject.another();
    const unique = store.collection(
      notes([{ fields: ['owner', 'title'], unique: true }, { fields: ['rank'] }]),
    );
    await expect(unique.insert(note('new', { title: 't1199' }))).rejects.toMatchObject({
      name: 'ConflictError',
      fields: ['owner', 'title'],
    });
    await expect(unique.patch('none', { owner: 'o' })).rejects.toBeInstanceOf(ConflictError);
    const all = ['_id_', 'i_owner', 'i_owner_title', 'i_rank', 'u_owner_title'];
    expect(await indexNames(subject)).toEqual(all);

    const { store: third } = await subject.another();
    expect(await third.collection(PLAIN).count({ owner: 'o' })).toBe(1200);
    // Rows of a version without the unique index do not conflict with each other.
    expect(await third.collection(PLAIN).insertMany([note('old1'), note('old2')])).toHaveLength(2);
    expect(await indexNames(subject)).toEqual(all);
    expect(await third.dropStaleIndexes(PLAIN)).toEqual(['u_owner_title', 'i_owner_title']);
    expect(await indexNames(subject)).toEqual(['_id_', 'i_owner', 'i_rank']);
  });

  test('an index that became unique is refused if rows violate it', async () => {
    const { store, another } = await open();
    await store.collection(PLAIN).insertMany([note('1'), note('2')]);
    const stricter = (await another()).store.collection(notes([{ fields: ['owner'], unique: true }]));
    await expect(stricter.get('1')).rejects.toThrow(/violate a unique index/);
    expect(await store.collection(PLAIN).count({ owner: 'o' })).toBe(2);
  });

  test('a database of a later version is refused', async () => {
    const { store, mongo } = await open();
    await mongo.db.collection<{ _id: string }>('meta').insertOne({ _id: 'layout', value: 99 } as never);
    await expect(store.collection(PLAIN).list()).rejects.toThrow(/layout 99.*newer version/);
  });

  test('concurrent claims and removals of several processes take each row once', async () => {
    const { store, another } = await open();
    await store
      .collection(PLAIN)
      .insertMany(Array.from({ length: 300 }, (_, n) => note(`n${n}`, { rank: n % 2 })));
    const processes = await Promise.all(Array.from({ length: 4 }, () => another()));
    const rows = processes.map((one) => one.store.collection(PLAIN));
    const claims = await Promise.all(
      [...rows, ...rows].map((one) =>
        one.claim({ where: { rank: 0 }, orderBy: 'rank', limit: 20 }, { rank: 7 }),
      ),
    );
    const claimed = claims.flat().map(({ id }) => id);
    expect(new Set(claimed).size).toBe(claimed.length);
    // A claim of twenty gets twenty if there are enough.
    expect(claimed).toHaveLength(150);
    const removed = await Promise.all(rows.map((one) => one.removeWhere({ rank: 1 }, 30)));
    expect(removed).toEqual([30, 30, 30, 30]);
    expect(await store.collection(PLAIN).count({ rank: 1 })).toBe(30);
  });

  test('claims with different conditions do not wait for each other', async () => {
    const { store, sent } = await open();
    const rows = store.collection(PLAIN);
    await rows.insertMany(Array.from({ length: 30 }, (_, n) => note(`n${n}`, { rank: n % 2 })));
    // Each claim finds an open connection.
    await Promise.all([0, 1, 2, 3].map((rank) => rows.list({ where: { rank } })));
    sent.length = 0;
    const claims = await Promise.all([0, 1].map((rank) => rows.claim({ where: { rank } }, { rank: 7 })));
    expect(claims.map((claimed) => claimed.length)).toEqual([15, 15]);
    expect(sent.slice(0, 2)).toEqual(['find notes', 'find notes']);
  });

  test('concurrent reads share a statement, and each sees earlier writes', async () => {
    const { store, sent } = await open();
    const rows = store.collection(PLAIN);
    await rows.insertMany(Array.from({ length: 50 }, (_, n) => note(`n${n}`)));
    sent.length = 0;
    const chains = Array.from({ length: 50 }, async (_, n) => {
      const id = `n${n}`;
      for (let rank = 0; rank < 5; rank++) {
        expect((await rows.get(id))?.rank).toBe(rank);
        if (n % 10 === 0) await rows.patch(id, { rank: rank + 1 });
        else break;
      }
      expect(await rows.get(`x${n}`)).toBeUndefined();
    });
    await Promise.all(chains);
    const finds = sent.filter((one) => one === 'find notes').length;
    expect(finds).toBeLessThan(30);
    expect(sent.filter((one) => one === 'update notes')).toHaveLength(5);
  });

  test('concurrent writes share statements, and each gets its own result', async () => {
    const { store, sent } = await open();
    const rows = store.collection(
      notes([{ fields: ['owner', 'title'], unique: true }, { fields: ['rank'] }, { fields: ['title'] }]),
    );
    await rows.insert(note('taken', { title: 'taken' }));
    sent.length = 0;
    const large = 'x'.repeat(17_000_000);
    const inserts = await Promise.allSettled([
      ...Array.from({ length: 50 }, (_, n) => rows.insert(note(`n${n}`, { title: `t${n}` }))),
      rows.insert(note('n7', { title: 'another' })),
      rows.insert(note('new', { title: 'taken' })),
      rows.insertMany([note('m1'), note('taken'), note('m2')]),
    ]);
    expect(sent).toEqual(['insert notes']);
    expect(inserts.slice(0, 50).every(({ status }) => status === 'fulfilled')).toBe(true);
    expect(inserts.slice(50)).toMatchObject([
      { reason: { name: 'ConflictError', fields: ['id'] } },
      { reason: { name: 'ConflictError', fields: ['owner', 'title'] } },
      { value: ['m1', 'm2'] },
    ]);

    sent.length = 0;
    const patches = await Promise.all(
      Array.from({ length: 50 }, (_, n) => rows.patch(`n${n}`, { rank: n }, { rank: n % 2 })),
    );
    expect(patches).toEqual(Array.from({ length: 50 }, (_, n) => n % 2 === 0));
    expect(sent).toEqual(['update notes', 'find notes']);

    sent.length = 0;
    await Promise.all([0, 1, 2, 3].map((rank) => rows.patch('m1', { rank }, rank ? { rank: rank - 1 } : {})));
    expect((await rows.get('m1'))?.rank).toBe(3);
    const none = await Promise.all(['no', 'nobody'].map((id) => rows.patch(id, { rank: 1 })));
    expect(none).toEqual([false, false]);

    // A write that cannot be sent does not affect the others.
    const mixed = await Promise.allSettled([
      rows.insert(note('before')),
      rows.insert({ ...note('large'), text: large } as Note),
      rows.insert(note('after')),
      rows.patch('m2', { rank: 9 }),
      rows.patch('m1', { text: large } as never),
    ]);
    expect(mixed.map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'fulfilled',
      'rejected',
    ]);
    expect(await rows.get('after')).toBeDefined();
    expect((await rows.get('m2'))?.rank).toBe(9);
  });

  test('a batch of any size is claimed in three statements, and read, written or removed in one or two', async () => {
    const { store, sent } = await open();
    const rows = store.collection(PLAIN);
    await rows.insertMany(Array.from({ length: 400 }, (_, n) => note(`n${n}`)));
    const statements = async (work: () => Promise<unknown>) => {
      sent.length = 0;
      await work();
      return sent.map((one) => one.split(' ')[0]).join();
    };
    expect(await statements(() => rows.insertMany([note('a'), note('b')]))).toBe('insert');
    expect(await statements(() => rows.claim({ where: { rank: 0 } }, { rank: 1 }))).toBe('find,update,find');
    expect(await statements(() => Promise.all(['a', 'b', 'a', 'zz'].map((id) => rows.get(id))))).toBe('find');
    expect(await statements(() => rows.list({ where: { rank: 1 }, limit: 300 }))).toBe('find');
    expect(await statements(() => rows.patch('n1', { rank: 5 }, { rank: 1 }))).toBe('update');
    expect(await statements(() => rows.replace(note('n1'), 3))).toBe('update');
    expect(await statements(() => rows.increment('n1', { rank: 5 }, note('n1')))).toBe('update');
    expect(await statements(() => rows.removeWhere({ id: { in: ['a', 'b'] } }))).toBe('delete');
    expect(await statements(() => rows.removeWhere({ rank: 1 }, 300))).toBe('find,delete');
  });
});

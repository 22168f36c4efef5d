import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { StartRefused } from '@wellspring/core/start-refused';
import { openDatabase } from '@wellspring/sqlite/database';
import { currentRevision } from '../collections/revisions.ts';
import { collectionConformance } from '../conformance.ts';
import { queryConformance } from '../conformance-queries.ts';
import { commitRunConformance } from '../conformance-runs.ts';
import type { CollectionDefinition, Store } from '../port.ts';
import { openEmbedded } from './store.fixture.ts';
import { createEmbeddedStore } from './store.ts';

collectionConformance('embedded', openEmbedded);
queryConformance('embedded', openEmbedded);
commitRunConformance('embedded', openEmbedded);

interface Note {
  id: string;
  owner: string;
  title: string;
  body: string;
}
const note = (id: string, owner = 'o'): Note => ({
  id,
  owner,
  title: `title\0 ${id}`,
  body: `body \ud800 ${id}`,
});

/** Opens the same file with one definition after the other. */
async function throughVersions(...definitions: CollectionDefinition<Note>[]) {
  const subject = await openEmbedded();
  const path = join(subject.path, 'versions', 'wellspring.db');
  for (const definition of definitions) {
    const db = openDatabase(path);
    const rows = createEmbeddedStore(db).collection(definition);
    if (definition === definitions[0]) {
      await rows.insertMany(
        Array.from({ length: 450 }, (_, i) => note(`n${String(i).padStart(3, '0')}`, `o${i % 3}`)),
      );
    }
    const all = await rows.list({ order: 'asc' });
    expect(all).toHaveLength(450);
    expect(all[7]).toEqual(note('n007', 'o1'));
    for (const { fields } of definition.indexes) {
      expect(await rows.find({ [fields[0]!]: all[7]![fields[0]!] })).toBeDefined();
    }
    await rows.patch('n449', { owner: 'o1' });
    await db.close();
  }
  await subject.close();
}

test('indexes and texts may be added, changed and removed without changing the rows', async () => {
  await throughVersions(
    { name: 'notes', indexes: [{ fields: ['owner'] }] },
    { name: 'notes', indexes: [{ fields: ['owner'] }, { fields: ['title', 'owner'] }], texts: ['body'] },
    { name: 'notes', indexes: [{ fields: ['title'], unique: true }], texts: [] },
    { name: 'notes', indexes: [{ fields: ['title'] }], texts: ['body'] },
    { name: 'notes', indexes: [{ fields: ['owner'] }], texts: ['title', 'body'] },
    { name: 'notes', indexes: [{ fields: ['title'] }, { fields: ['owner', 'title'], sparse: true }] },
    { name: 'notes', indexes: [{ fields: ['title'] }, { fields: ['owner'] }] },
  );
});

test('an older version drops no index of a newer one, which finds the rows that were written meanwhile; the command drops it', async () => {
  const subject = await openEmbedded();
  const path = join(subject.path, 'two', 'wellspring.db');
  const older: CollectionDefinition<Note> = { name: 'notes', indexes: [{ fields: ['owner'] }] };
  const newer: CollectionDefinition<Note> = {
    name: 'notes',
    indexes: [{ fields: ['owner'] }, { fields: ['title'], unique: true }],
  };
  const indexes = () => {
    const db = openDatabase(path);
    const found = db.statement("SELECT name FROM sqlite_master WHERE name LIKE 'i!_notes%' ESCAPE '!'").all();
    return db.close().then(() => found.map(({ name }) => name));
  };
  async function as<R>(definition: CollectionDefinition<Note>, work: (store: Store) => Promise<R>) {
    const db = openDatabase(path);
    const store = createEmbeddedStore(db);
    store.collection(definition);
    const result = await work(store);
    await db.close();
    return result;
  }
  await as(newer, (store) => store.collection(newer).insert(note('1')));
  const both = await indexes();
  await as(older, (store) => store.collection(older).insertMany([note('2'), note('3')]));
  expect(await indexes()).toEqual(both);
  expect(await as(newer, (store) => store.collection(newer).find({ title: note('2').title }))).toEqual(
    note('2'),
  );
  expect(await as(older, (store) => store.dropStaleIndexes(older))).toEqual(['i_notes_title_u']);
  expect(await indexes()).toEqual(['i_notes_owner']);
  expect(await as(newer, (store) => store.collection(newer).find({ title: note('3').title }))).toEqual(
    note('3'),
  );
  await subject.close();
});

test('an index that became unique is refused if rows violate it, and the table is not changed', async () => {
  const { db, store, close } = await openEmbedded();
  await store
    .collection<Note>({ name: 'notes', indexes: [{ fields: ['owner'] }] })
    .insertMany([note('1'), note('2')]);
  const stricter: CollectionDefinition<Note> = {
    name: 'notes',
    indexes: [{ fields: ['owner'], unique: true }],
  };
  expect(() => createEmbeddedStore(db).collection(stricter)).toThrow(/UNIQUE/);
  const reopened = createEmbeddedStore(db).collection<Note>({
    name: 'notes',
    indexes: [{ fields: ['owner'] }],
  });
  expect(await reopened.count({ owner: 'o' })).toBe(2);
  await close();
});

test('a database of a later version is refused', async () => {
  const { db, close } = await openEmbedded();
  db.exec("UPDATE meta SET value = '99' WHERE name = 'layout'");
  expect(() => createEmbeddedStore(db)).toThrow(/layout 99.*newer version/);
  expect(() => createEmbeddedStore(db)).toThrow(StartRefused);
  await close();
});

test('a database that is too old is refused, and not marked as newer', async () => {
  const { db, close } = await openEmbedded();
  db.exec("UPDATE meta SET value = '2' WHERE name = 'layout'");
  expect(() => createEmbeddedStore(db)).toThrow(/layout 2.*reads layout 3/);
  expect(() => createEmbeddedStore(db)).toThrow(StartRefused);
  expect(db.statement("SELECT value FROM meta WHERE name = 'layout'").get()).toEqual({ value: '2' });
  await close();
});

test('lists use an index: none of the queries sorts or scans a table', async () => {
  const { db, store, close } = await openEmbedded();
  store.collection<Note>({ name: 'notes', indexes: [{ fields: ['owner', 'title'] }, { fields: ['title'] }] });
  const plan = (sql: string) =>
    (db.statement(`EXPLAIN QUERY PLAN SELECT doc FROM c_notes ${sql}`).all() as { detail: string }[])
      .map(({ detail }) => detail)
      .join('; ');
  for (const sql of [
    "WHERE f_owner = 'o' ORDER BY f_title DESC, id DESC LIMIT 9",
    "WHERE f_owner = 'o' AND f_title > 'a' ORDER BY f_title ASC, id ASC LIMIT 9",
    "WHERE f_title = 'o' ORDER BY id DESC LIMIT 9",
    "WHERE id < 'x' ORDER BY id DESC LIMIT 9",
  ]) {
    expect(plan(sql)).toMatch(/^SEARCH c_notes USING INDEX/);
    expect(plan(sql)).not.toContain('TEMP B-TREE');
  }
  await close();
});

test('a revision is read again only after it was raised, also if that was rejected', async () => {
  const subject = await openEmbedded();
  let isBroken = false;
  const db = openDatabase(join(subject.path, 'broken', 'wellspring.db'), {
    sync: (_file, done) => setImmediate(() => done(isBroken ? new Error('EIO') : null)),
  });
  const store = createEmbeddedStore(db);
  const rows = store.collection<Note>({ name: 'notes', indexes: [], revision: { of: 'notes' } });
  const current = () => currentRevision(store, 'notes');
  expect(await current()).toBe(0);
  await rows.insert(note('1'));
  expect(await current()).toBe(1);
  const before = db.executed;
  expect(await current()).toBe(1);
  expect(db.executed).toBe(before);
  isBroken = true;
  await expect(rows.insert(note('2'))).rejects.toThrow('EIO');
  isBroken = false;
  await db.write(() => {});
  expect(await current()).toBe(2);
  await db.close();
  await subject.close();
});

import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { type Database, openDatabase } from './database.ts';
import { lockDirectory } from './lock.ts';

let dir: TempDir;
let db: Database;
const file = () => join(dir.path, 'a.db');

beforeEach(async () => {
  dir = await tempDir();
  db = openDatabase(file());
  db.exec('CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID');
});
afterEach(async () => {
  await db.close();
  await dir.remove();
});

const insert = (id: string, n = 0) => db.statement('INSERT INTO t VALUES (?, ?)').run(id, n);
const ids = (from = db) =>
  (from.statement('SELECT id FROM t ORDER BY id').all() as { id: string }[]).map(({ id }) => id);

test('writes of one turn share a commit and resolve in their order', async () => {
  const before = db.commits;
  const order: number[] = [];
  await Promise.all([1, 2, 3].map((n) => db.writeOne(() => insert(`k${n}`, n)).then(() => order.push(n))));
  expect(db.commits - before).toBe(1);
  expect(order).toEqual([1, 2, 3]);
});

test('a write that throws undoes its own statements and nobody else’s', async () => {
  const outcomes = await Promise.allSettled([
    db.write(() => insert('before')),
    db.write(() => {
      insert('half');
      throw new Error('no');
    }),
    db.writeOne(() => insert('before')),
    db.write(() => insert('after')),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled']);
  expect(ids()).toEqual(['after', 'before']);
});

test('what is asked for while a commit is being made durable follows in the next one', async () => {
  const later: Promise<unknown>[] = [];
  await db.writeOne(() => {
    // Within the commit, so the next one is the earliest that can take it.
    later.push(db.writeOne(() => insert('b')));
    return insert('a');
  });
  await Promise.all(later);
  expect(ids()).toEqual(['a', 'b']);
});

test('closing makes durable what was asked for, and refuses what comes later', async () => {
  const written = db.writeOne(() => insert('last'));
  await db.close();
  await written;
  await expect(db.writeOne(() => insert('late'))).rejects.toThrow('closed');
  const again = openDatabase(file());
  expect(ids(again)).toEqual(['last']);
  await again.close();
});

test('what was resolved is there after SIGKILL', async () => {
  await db.close();
  const script = join(dir.path, 'writer.mjs');
  writeFileSync(
    script,
    `import { openDatabase } from ${JSON.stringify(new URL('./database.ts', import.meta.url).href)};
     const db = openDatabase(${JSON.stringify(file())});
     for (let n = 0; n < 50; n++) await db.writeOne(() => db.statement('INSERT INTO t VALUES (?, ?)').run('k' + n, n));
     process.kill(process.pid, 'SIGKILL');`,
  );
  expect(spawnSync(process.execPath, [script]).signal).toBe('SIGKILL');
  db = openDatabase(file());
  expect(ids()).toHaveLength(50);
});

test('a data directory belongs to one process, and to the next when that one was killed', () => {
  const hold = `import { lockDirectory } from ${JSON.stringify(new URL('./lock.ts', import.meta.url).href)};
    lockDirectory(${JSON.stringify(dir.path)});`;
  const holder = join(dir.path, 'holder.mjs');
  writeFileSync(holder, `${hold} process.kill(process.pid, 'SIGKILL');`);
  expect(spawnSync(process.execPath, [holder]).signal).toBe('SIGKILL');
  const release = lockDirectory(dir.path);
  writeFileSync(holder, hold);
  expect(String(spawnSync(process.execPath, [holder]).stderr)).toContain('in use by another process');
  release();
  expect(spawnSync(process.execPath, [holder]).status).toBe(0);
});

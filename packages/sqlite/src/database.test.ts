import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { type Database, openDatabase } from './database.ts';

let directory: TempDir;
let db: Database;
beforeEach(async () => {
  directory = await tempDir();
  db = openDatabase(join(directory.path, 'new', 'wellspring.db'));
  db.exec('CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)');
});
afterEach(async () => {
  await db.close();
  await directory.remove();
});

const insert = (n: number, text = '') => db.statement('INSERT INTO t VALUES (?, ?)').run(n, text);
const numbers = (of = db) =>
  (of.statement('SELECT n FROM t ORDER BY n').all() as { n: number }[]).map(({ n }) => n);

test('writes of one event loop turn share a commit, run in order and return their results', async () => {
  const before = db.commits;
  const writes = [3, 1, 2].map((n) =>
    db.write(() => {
      insert(n);
      return numbers();
    }),
  );
  const last = db.writeOne(() => insert(9).changes);
  expect(numbers()).toEqual([]);
  expect(await Promise.all(writes)).toEqual([[3], [1, 3], [1, 2, 3]]);
  expect(await last).toBe(1);
  expect(db.commits - before).toBe(1);
});

test('readers see committed writes only', async () => {
  const other = openDatabase(join(directory.path, 'new', 'wellspring.db'));
  const writing = db.write(() => insert(1));
  expect(numbers(other)).toEqual([]);
  await writing;
  expect(numbers(other)).toEqual([1]);
  await other.close();
});

test('a write that throws is rolled back, and its neighbours are committed', async () => {
  const results = await Promise.allSettled([
    db.write(() => insert(1)),
    db.write(() => {
      insert(2);
      throw new RangeError('changed its mind');
    }),
    db.write(() => {
      insert(3);
      insert(1);
    }),
    db.writeOne(() => insert(1)),
    db.writeOne(() => insert(4)),
  ]);
  expect(results.map(({ status }) => status)).toEqual([
    'fulfilled',
    'rejected',
    'rejected',
    'rejected',
    'fulfilled',
  ]);
  expect((results[1] as PromiseRejectedResult).reason).toBeInstanceOf(RangeError);
  expect(numbers()).toEqual([1, 4]);
});

test('commits keep a minimum distance under load, and few writes do not wait', async () => {
  const memory = openDatabase(':memory:');
  memory.exec('CREATE TABLE t (n INTEGER)');
  const write = () => memory.writeOne(() => memory.statement('INSERT INTO t VALUES (1)').run());
  const begun = performance.now();
  for (let round = 0; round < 11; round++) await Promise.all(Array.from({ length: 16 }, write));
  expect(performance.now() - begun).toBeGreaterThan(39);
  await write();
  for (let round = 0; round < 200; round++) {
    const written = write().then(() => 'written');
    expect(await Promise.race([written, turn('later')])).toBe('written');
  }
  await memory.close();
});

test('writeSoon joins the next commit of several writes, or starts a commit after 100 ms', async () => {
  const before = db.commits;
  const soon = db.writeSoon(() => insert(1).changes);
  await Promise.all([2, 3].map((n) => db.writeOne(() => insert(n))));
  expect(numbers()).toEqual([1, 2, 3]);
  expect(db.commits - before).toBe(1);
  await soon;
  await db.writeSoon(() => insert(4));
  expect(numbers()).toEqual([1, 2, 3, 4]);
});

test('a write that is alone makes no transaction with writes of writeSoon', async () => {
  const before = db.executed;
  const soon = db.writeSoon(() => insert(1));
  await db.writeOne(() => insert(2));
  expect(db.executed - before).toBe(1);
  expect(numbers()).toEqual([2]);
  await soon;
  expect(numbers()).toEqual([1, 2]);
});

test('close commits writes of writeSoon', async () => {
  const writing = [db.writeSoon(() => insert(1)), db.writeOne(() => insert(2))];
  await db.close();
  await Promise.all(writing);
  const reopened = openDatabase(join(directory.path, 'new', 'wellspring.db'));
  expect(numbers(reopened)).toEqual([1, 2]);
  await reopened.close();
});

test('a single write that throws leaves nothing behind, and the next one is committed', async () => {
  const failing = db.write(() => {
    insert(1);
    throw new RangeError();
  });
  await expect(failing).rejects.toBeInstanceOf(RangeError);
  await db.write(() => insert(2));
  await expect(db.writeOne(() => insert(2))).rejects.toThrow('UNIQUE');
  await db.writeOne(() => insert(3));
  expect(numbers()).toEqual([2, 3]);
});

test('writes requested while others resolve are part of a later commit', async () => {
  let chained = 0;
  for (let n = 0; n < 5; n++) {
    await db.writeOne(() => insert(n));
    chained += 1;
  }
  expect(chained).toBe(5);
  expect(numbers()).toEqual([0, 1, 2, 3, 4]);
});

test('writes requested during an fsync are part of the next commit', async () => {
  const later: Promise<unknown>[] = [];
  await db.writeOne(() => {
    // Within the commit, so the next one is the earliest that can take it.
    later.push(db.writeOne(() => insert(2)));
    return insert(1);
  });
  await Promise.all(later);
  expect(numbers()).toEqual([1, 2]);
});

test('a full disk rejects and rolls back all writes of the commit, and later writes succeed', async () => {
  await db.write(() => insert(0));
  const { page_count } = db.statement('PRAGMA page_count').get() as { page_count: number };
  db.exec(`PRAGMA max_page_count = ${page_count + 4}`);
  const results = await Promise.allSettled([
    db.writeOne(() => insert(1)),
    db.write(() => insert(2)),
    db.writeOne(() => insert(3, 'x'.repeat(1_000_000))),
    db.writeOne(() => insert(4)),
  ]);
  for (const [index, { status }] of results.entries()) {
    // Results and rows agree for each write.
    expect([index + 1, numbers().includes(index + 1)]).toEqual([index + 1, status === 'fulfilled']);
  }
  expect(results[2]!.status).toBe('rejected');
  db.exec('PRAGMA max_page_count = 1000000');
  await db.writeOne(() => insert(5, 'x'.repeat(1_000_000)));
  expect(numbers()).toContain(5);
});

test('writes wait or fail while another process locks the file, and succeed afterwards', async () => {
  const other = openDatabase(join(directory.path, 'new', 'wellspring.db'));
  other.exec('BEGIN IMMEDIATE');
  db.exec('PRAGMA busy_timeout = 20');
  await expect(db.write(() => insert(1))).rejects.toThrow(/locked/);
  other.exec('ROLLBACK');
  await db.write(() => insert(2));
  expect(numbers()).toEqual([2]);
  await other.close();
});

test('a synchronous transaction is atomic', () => {
  expect(db.transaction(() => insert(1).changes)).toBe(1);
  expect(() =>
    db.transaction(() => {
      insert(2);
      insert(1);
    }),
  ).toThrow(/UNIQUE/);
  expect(numbers()).toEqual([1]);
});

test('close commits pending writes and rejects later ones', async () => {
  const writing = db.write(() => insert(1));
  await db.close();
  await db.close();
  await writing;
  await expect(db.write(() => insert(2))).rejects.toThrow('closed');
  const reopened = openDatabase(join(directory.path, 'new', 'wellspring.db'));
  expect(numbers(reopened)).toEqual([1]);
  await reopened.close();
});

test('a file that is not a database is refused and not modified', async () => {
  const path = join(directory.path, 'other.db');
  await writeFile(path, 'x'.repeat(5000));
  expect(() => openDatabase(path)).toThrow(/not a database/);
});

test('resolved writes survive SIGKILL at any moment', async () => {
  const path = join(directory.path, 'killed.db');
  const writer = `
    import { openDatabase } from ${JSON.stringify(import.meta.resolve('./database.ts'))};
    const db = openDatabase(${JSON.stringify(path)});
    db.exec('CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)');
    for (let n = 0; ; n += 10) {
      const group = Array.from({ length: 10 }, (_, i) => n + i);
      await Promise.all(group.map((one) =>
        db.writeOne(() => db.statement('INSERT INTO t VALUES (?, ?)').run(one, 'x'.repeat(500)))));
      process.stdout.write(group.join('\\n') + '\\n');
    }`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', writer], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const told: number[] = [];
  for await (const line of createInterface(child.stdout)) {
    told.push(Number(line));
    if (told.length === 500) child.kill('SIGKILL');
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  expect(child.signalCode).toBe('SIGKILL');
  const after = openDatabase(path);
  const found = new Set(numbers(after));
  expect(told.length).toBeGreaterThanOrEqual(500);
  expect(told.filter((n) => !found.has(n))).toEqual([]);
  await after.close();
});

test('a failed fsync rejects its writes, and later ones wait for a complete checkpoint', async () => {
  const path = join(directory.path, 'failing.db');
  let broken = false;
  const failing = openDatabase(path, {
    sync: (_file, done) => setImmediate(() => done(broken ? new Error('EIO') : null)),
  });
  failing.exec('CREATE TABLE t (n INTEGER PRIMARY KEY)');
  const add = (n: number) => failing.writeOne(() => failing.statement('INSERT INTO t VALUES (?)').run(n));
  await add(1);
  broken = true;
  await expect(add(2)).rejects.toThrow('EIO');
  // A reader prevents a complete checkpoint: nothing may be written to a suspect log.
  const reader = openDatabase(path);
  reader.exec('BEGIN');
  reader.statement('SELECT count(*) FROM t').get();
  failing.exec('PRAGMA busy_timeout = 1');
  broken = false;
  // A run whose commit is rejected with another error is executed again.
  await expect(add(3)).rejects.toMatchObject({
    name: 'Unavailable',
    message: 'The checkpoint of the write-ahead log is incomplete.',
  });
  await expect(failing.ping()).rejects.toBeInstanceOf(Unavailable);
  reader.exec('COMMIT');
  await reader.close();
  await add(4);
  await failing.ping();
  expect(failing.statement('SELECT n FROM t WHERE n = 4').get()).toEqual({ n: 4 });
  await failing.close();
});

test('a commit whose log cannot be opened is rejected, and recovered before a later write', async () => {
  const [path, elsewhere] = ['new', 'elsewhere'].map((name) => join(directory.path, name)) as [
    string,
    string,
  ];
  let recovered: number[] | undefined;
  db.onRecovered(() => {
    recovered = numbers();
  });
  // SQLite has its files open.
  await rename(path, elsewhere);
  await expect(db.writeOne(() => insert(1))).rejects.toThrow('ENOENT');
  await rename(elsewhere, path);
  await db.writeOne(() => insert(2));
  expect(recovered).toEqual([1]);
  expect(numbers()).toEqual([1, 2]);
});

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, ftruncateSync, openSync } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { createCheckpoints } from './checkpoints.ts';
import { type Database, openDatabase } from './database.ts';

let directory: TempDir;
let path: string;
let db: Database;
beforeEach(async () => {
  directory = await tempDir();
  path = join(directory.path, 'wellspring.db');
  db = openDatabase(path);
  db.exec('CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)');
});
afterEach(async () => {
  await db.close();
  await directory.remove();
});

const insert = (n: number, text = '') => db.statement('INSERT INTO t VALUES (?, ?)').run(n, text);
const numbers = () => (db.statement('SELECT n FROM t ORDER BY n').all() as { n: number }[]).map(({ n }) => n);

const MB = 1024 * 1024;

test('commits wait for the last pass only, and not for a thread that cannot work', async () => {
  const log = openSync(join(directory.path, 'log'), 'w');
  const holdsOf = async (path: string, bytes: number) => {
    const holds: boolean[] = [];
    ftruncateSync(log, bytes);
    const checkpoints = createCheckpoints(path, (held) => holds.push(held));
    checkpoints.committed(log);
    await checkpoints.close();
    return holds;
  };
  expect(await holdsOf(path, 17 * MB)).toEqual([true, false]);
  expect(await holdsOf(path, MB)).toEqual([]);
  expect(await holdsOf(directory.path, 17 * MB)).toEqual([]);
  closeSync(log);
});

test('a large log is checkpointed while writes continue', async () => {
  const text = 'x'.repeat(1024 * 1024);
  let n = 0;
  await eventually(
    async () => {
      await db.write(() => insert(++n, text));
      return (await stat(path)).size > 16 * 1024 * 1024;
    },
    { ms: 30_000, every: 5 },
  );
  expect(numbers()).toHaveLength(n);
});

test('writes without a pause do not prevent that the log is reused', async () => {
  const log = `${path}-wal`;
  const text = 'x'.repeat(64 * 1024);
  await db.write(() => insert(0));
  /** Changes whenever the log is written from its start. */
  const salt = async () => {
    await using file = await open(log);
    return (await file.read(Buffer.alloc(8), 0, 8, 16)).buffer.toString('hex');
  };
  const before = await salt();
  let n = 0;
  let isReused = false;
  const writers = Array.from({ length: 8 }, async () => {
    while (!isReused) await db.writeOne(() => insert(++n, text));
  });
  await eventually(
    async () => {
      isReused = (await salt()) !== before;
      return isReused;
    },
    { ms: 30_000, every: 5 },
  ).finally(() => {
    isReused = true;
  });
  await Promise.all(writers);
  // Long before the log is cut for its size.
  expect(n * text.length).toBeLessThan(200 * 1024 * 1024);
  expect(numbers()).toHaveLength(n + 1);
});

test('a process with nothing else to do ends after its writes, not during a checkpoint', async () => {
  const program = `
    import { openDatabase } from ${JSON.stringify(new URL('./database.ts', import.meta.url).href)};
    const db = openDatabase(process.argv[1]);
    db.exec('CREATE TABLE t (text TEXT)');
    const text = 'x'.repeat(1024 * 1024);
    for (let n = 0; n < 60; n++) await db.writeOne(() => db.statement('INSERT INTO t VALUES (?)').run(text));
    await db.close();
    console.log('closed');`;
  const child = spawn(process.execPath, [
    '--input-type=module',
    '--eval',
    program,
    join(directory.path, 'other.db'),
  ]);
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  const [code] = await once(child, 'close');
  expect([code, output]).toEqual([0, 'closed\n']);
});

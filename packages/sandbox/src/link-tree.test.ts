import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createDiskRoom } from './disk-room.ts';
import { linkTree } from './link-tree.ts';
import { createTurns, inTurnsOf } from './turns.ts';

function makeTree(path: string, directories: number, files: number): void {
  for (let d = 0; d < directories; d += 1) {
    mkdirSync(join(path, `d${d}`), { recursive: true });
    for (let f = 0; f < files; f += 1) writeFileSync(join(path, `d${d}/f${f}`), `${d} ${f}`);
  }
}

test('a large tree of packages is linked in many short turns', async () => {
  await using directory = await tempDir();
  const [from, to] = [join(directory.path, 'from'), join(directory.path, 'to')];
  makeTree(from, 20, 100);
  let turns = 0;
  const inTurns = inTurnsOf(createTurns({ sliceMs: 0.5, pauseMs: 1 }), 'u_large');
  const room = createDiskRoom(
    () => 0,
    () => 0,
  );
  const counted: typeof inTurns = (work) =>
    inTurns((deadline) => {
      turns += 1;
      return work(deadline);
    });
  await linkTree(from, to, counted, room.take);
  expect(room.taken).toBe(0);
  expect(turns).toBeGreaterThan(5);
  expect(readdirSync(to, { recursive: true }).sort()).toEqual(readdirSync(from, { recursive: true }).sort());
  expect(statSync(join(to, 'd7/f7'))).toMatchObject({ nlink: 2, ino: statSync(join(from, 'd7/f7')).ino });
});

const MEMORY = '/dev/shm';
const isOtherFileSystem = existsSync(MEMORY) && statSync(MEMORY).dev !== statSync(import.meta.dirname).dev;

(isOtherFileSystem ? test : test.skip)('files of another file system are copied', async () => {
  await using directory = await tempDir();
  const from = mkdtempSync(join(MEMORY, 'wellspring-'));
  try {
    makeTree(from, 2, 20);
    const inTurns = inTurnsOf(createTurns(), 'u_copied');
    const plenty = createDiskRoom(
      () => 0,
      () => Number.POSITIVE_INFINITY,
    );
    await linkTree(from, join(directory.path, 'to'), inTurns, plenty.take);
    expect(plenty.taken).toBe(40 * 4096);
    for (const f of [0, 19]) expect(readFileSync(join(directory.path, `to/d1/f${f}`), 'utf8')).toBe(`1 ${f}`);
    // Copies need room, 40 blocks and as many that stay free.
    const { take } = createDiskRoom(
      () => 0,
      () => 60 * 4096,
    );
    await expect(linkTree(from, join(directory.path, 'none'), inTurns, take)).rejects.toThrow(
      'There is no room for these packages',
    );
  } finally {
    rmSync(from, { recursive: true });
  }
});

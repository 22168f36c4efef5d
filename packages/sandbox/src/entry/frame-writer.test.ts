import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { contentOf, createFrameReader } from '../frame-reader.ts';
import { FRAME } from '../protocol.ts';
import { createFrameWriter, type FrameWriter } from './frame-writer.ts';

describe('frames', () => {
  let directory: TempDir;
  let fd: number;
  let writer: FrameWriter;
  let time: number;
  beforeEach(async () => {
    directory = await tempDir();
    fd = openSync(join(directory.path, 'frames'), 'w');
    time = 0;
    const closed = () => {
      throw new Error('closed');
    };
    writer = createFrameWriter(fd, closed, () => time);
  });
  afterEach(async () => {
    closeSync(fd);
    await directory.remove();
  });

  /** Contents of the written frames. */
  function written(): string[] {
    const reader = createFrameReader(() => 1024 * 1024);
    reader.push(readFileSync(join(directory.path, 'frames')));
    const contents: string[] = [];
    for (let frame = reader.next(); frame; frame = reader.next()) contents.push(String(contentOf(frame)));
    return contents;
  }

  test('are written at the end of the turn of the event loop', async () => {
    writer.send(FRAME.log, 'a');
    await Promise.resolve();
    writer.send(FRAME.log, 'b');
    expect(written()).toEqual([]);
    await turn();
    expect(written()).toEqual(['a', 'b']);
  });

  test('are written at once in a turn that takes long: it may never end', async () => {
    writer.send(FRAME.log, 'a');
    time = 100;
    writer.send(FRAME.log, 'b');
    expect(written()).toEqual(['a', 'b']);
    await turn();
    writer.send(FRAME.log, 'c');
    expect(written()).toEqual(['a', 'b']);
    await turn();
    expect(written()).toEqual(['a', 'b', 'c']);
  });

  test('of calls that follow each other for long are still written together', async () => {
    for (let call = 0; call < 3; call += 1) {
      time += 60;
      const ended = writer.turnEnd(2);
      writer.send(FRAME.log, `a${call}`);
      writer.send(FRAME.log, `b${call}`);
      expect(written()).toHaveLength(2 * call);
      await ended;
      writer.flush();
    }
  });

  test('of a call are written with its end', async () => {
    writer.send(FRAME.log, 'a');
    await writer.turnEnd(1);
    expect(written()).toEqual([]);
    writer.send(FRAME.log, 'end');
    writer.flush();
    expect(written()).toEqual(['a', 'end']);
    await turn();
    expect(written()).toEqual(['a', 'end']);
  });

  test('of calls that end in the same turn are written one call after the other', async () => {
    let turns = 0;
    const count = () => {
      turns += 1;
      counting = setImmediate(count);
    };
    let counting = setImmediate(count);
    const seen: string[][] = [];
    for (const left of [3, 2, 1]) {
      writer.send(FRAME.log, `call ${left}`);
      await writer.turnEnd(left);
      writer.send(FRAME.log, `end ${left}`);
      writer.flush();
      seen.push(written().slice(-2));
    }
    expect(seen).toEqual([3, 2, 1].map((left) => [`call ${left}`, `end ${left}`]));
    clearImmediate(counting);
    expect(turns).toBe(1);
  });

  test('that are longer than the buffer follow earlier ones', async () => {
    writer.send(FRAME.log, 'a');
    writer.send(FRAME.log, 'x'.repeat(100_000));
    writer.send(FRAME.log, 'b');
    await turn();
    expect(written().map(({ length }) => length)).toEqual([1, 100_000, 1]);
  });
});

test('a closed descriptor is reported', () => {
  const fd = openSync('/dev/null', 'r');
  const writer = createFrameWriter(fd, () => {
    throw new Error('closed');
  });
  writer.send(FRAME.log, 'a');
  expect(() => writer.flush()).toThrow('closed');
  closeSync(fd);
});

import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import type { LogLine } from '@wellspring/component/program/program-types';
import { LIMITS } from '@wellspring/contract/limits';
import { systemClock } from '@wellspring/core/clock';
import fc from 'fast-check';
import { captureStreams } from './standard-streams.ts';

async function open(isAccepted: () => boolean = () => true) {
  const lines: LogLine[] = [];
  const [stdout, stderr] = [new Readable({ read() {} }), new Readable({ read() {} })];
  const { endLines } = captureStreams(
    { stdout, stderr },
    { clock: systemClock, onText: isAccepted, onLine: (line) => lines.push(line) > 0 },
  );
  // From then on, chunks are read when they are written.
  await setImmediate();
  return { lines, write: (chunk: Buffer) => void stdout.push(chunk), endLines };
}

const shown = (lines: LogLine[]) => lines.map(({ msg, isCut = false }) => (isCut ? `${msg} (cut)` : msg));

test('lines of any text in any chunks are logged as they were written; the last one may be incomplete', async () => {
  const text = fc.string({ maxLength: 30, unit: fc.constantFrom('a', 'b', 'é', '😀', '\n') });
  await fc.assert(
    fc.asyncProperty(text, fc.array(fc.integer({ min: 1, max: 8 })), async (written, sizes) => {
      const { lines, write, endLines } = await open();
      let rest = Buffer.from(written);
      for (const size of [...sizes, written.length * 4]) {
        if (rest.length > 0) write(rest.subarray(0, size));
        rest = rest.subarray(size);
      }
      endLines();
      const complete = written.split('\n');
      const last = complete.pop()!;
      const expected = complete.filter((line) => line !== '');
      expect(shown(lines)).toEqual(last === '' ? expected : [...expected, `${last} (cut)`]);
    }),
  );
});

test('of a line beyond the limit the beginning is logged, and nothing of the rest', async () => {
  const { lines, write } = await open();
  const beginning = 'x'.repeat(LIMITS.logLine);
  for (const part of [beginning, 'y'.repeat(1000), 'z\nnext\n']) write(Buffer.from(part));
  expect(shown(lines)).toEqual([`${beginning} (cut)`, 'next']);
});

test('a line that begins before a run is not part of the run', async () => {
  let isAccepted = false;
  const { lines, write } = await open(() => isAccepted);
  write(Buffer.from('before'));
  isAccepted = true;
  write(Buffer.from('within\n'));
  expect(shown(lines)).toEqual(['within']);
});

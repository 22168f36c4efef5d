import { expect, test } from '@jest/globals';
import { removesOwnFrames } from './own-frames.ts';

const clean = removesOwnFrames('/rt/');

test.each([
  [
    'of a module',
    'E: x\n    at a (/app/c.js:1:2)\n    at file:///rt/child.mjs:9:9',
    'E: x\n    at a (/app/c.js:1:2)',
  ],
  [
    'of a script',
    'E: x\n    at toError (/rt/network.cjs:194:24)\n    at b (/app/c.js:1:2)',
    'E: x\n    at b (/app/c.js:1:2)',
  ],
  [
    'before fields',
    'E: x\n    at async answerAll (file:///rt/child.mjs:9:9) {\n  code: 1\n}',
    'E: x {\n  code: 1\n}',
  ],
  ['before an element', '[\n  E: x\n      at /rt/network.cjs:1:2,\n  E: y\n]', '[\n  E: x,\n  E: y\n]'],
  [
    'of timers and promises',
    'E: x\n    at process.processTicksAndRejections (node:internal/process/task_queues:103:5)',
    'E: x',
  ],
])('a frame %s is removed, and what follows it stays', (_, text, cleaned) => {
  expect(clean(text)).toBe(cleaned);
});

test.each([
  'reads /rt/child.mjs:1:2',
  'E: x\n    at f (module:folder:///rt/child.mjs:1:2)',
  'E: x\n    at f (/app/rt/child.mjs:1:2)',
  'E: x\n    at f (module:https://example.com/rt/network.cjs:1:2)',
  'E: x\n    at noon, /rt/child.mjs was read',
  'E: x\n/rt/child.mjs:1:2',
])('%j has no frame of the platform', (text) => {
  expect(clean(text)).toBe(text);
});

test.each(['\n', '\n at ', ' at /rt/child.mjs', '\n   at /rt/child.mjs:1', '/rt/child.mjs:1:', '1'])(
  'megabytes of %j stay as they are',
  (part) => {
    const text = `\n    at /rt/child.mjs:${part.repeat(4_000_000 / part.length)}x`;
    expect(clean(text) === text).toBe(true);
  },
);

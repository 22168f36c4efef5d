import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { contentOf, createFrameReader } from './frame-reader.ts';
import { type CallFrame, decodeCall, encodeCall } from './protocol.ts';

function received(frame: CallFrame): CallFrame {
  const reader = createFrameReader(() => 64 * 1024);
  reader.push(encodeCall(frame));
  return decodeCall(contentOf(reader.next()!));
}

test('a call with any event is received as it was sent', () => {
  fc.assert(
    fc.property(fc.json(), fc.boolean(), (json, emitTrigger) => {
      const frame: CallFrame = {
        load: { path: '/app/x.mjs', format: 'esm' },
        call: { kind: 'run', trigger: { kind: 'value', json }, emitTrigger },
      };
      expect(received(frame)).toEqual(frame);
    }),
  );
});

test('a call without an event is received as it was sent', () => {
  const frame: CallFrame = { db: { ключ: '"значение"' }, call: { kind: 'hook', hook: 'deploy' } };
  expect(received(frame)).toEqual(frame);
});

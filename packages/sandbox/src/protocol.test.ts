import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createFrameReader, encodeFrame, FRAME, ProtocolError } from './protocol.ts';

const frame = fc.record({
  type: fc.constantFrom(...Object.values(FRAME)),
  content: fc.jsonValue({ maxDepth: 2 }),
});

/** The bytes cut at these places. */
function cut(bytes: Buffer, places: number[]): Buffer[] {
  const at = [...new Set([0, ...places.map((place) => place % (bytes.length + 1)), bytes.length])].sort(
    (a, b) => a - b,
  );
  return at.slice(1).map((end, index) => bytes.subarray(at[index], end));
}

describe('frames', () => {
  test('arrive as they were sent, however the stream is cut', () => {
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 8 }), fc.array(fc.nat(500)), (frames, places) => {
        const bytes = Buffer.concat(frames.map(({ type, content }) => encodeFrame(type, content)));
        const heard: unknown[] = [];
        const read = createFrameReader(1_000_000, (type, content) =>
          heard.push({ type, content: JSON.parse(content.toString('utf8')) }),
        );
        for (const chunk of cut(bytes, places)) read(chunk);
        expect(heard).toEqual(
          frames.map(({ type, content }) => ({ type, content: JSON.parse(JSON.stringify(content)) })),
        );
      }),
    );
  });

  test('longer than the limit are refused before their content is there', () => {
    const read = createFrameReader(100, () => {});
    const head = Buffer.alloc(5);
    head.writeUInt32LE(101, 0);
    expect(() => read(head)).toThrow(ProtocolError);
  });

  test('of length 0 and of length 0xFFFFFFFF are refused', () => {
    for (const length of [0, 0xffffffff]) {
      const head = Buffer.alloc(5);
      head.writeUInt32LE(length, 0);
      expect(() => createFrameReader(100, () => {})(head)).toThrow(ProtocolError);
    }
  });

  test('any bytes whatever give frames or a ProtocolError', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 64 })), (chunks) => {
        const read = createFrameReader(1000, () => {});
        try {
          for (const chunk of chunks) read(Buffer.from(chunk));
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError);
        }
      }),
    );
  });
});

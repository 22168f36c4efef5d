import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { contentOf, createFrameReader, type FrameReader } from './frame-reader.ts';
import { encodeFrame, FRAME, ProtocolError } from './protocol.ts';

const frame = fc.record({
  type: fc.constantFrom(...Object.values(FRAME)),
  content: fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.string({ minLength: 4000, maxLength: 20_000 })),
});

/** Splits the bytes at these positions. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [...new Set([0, ...places.map((place) => place % (bytes.length + 1)), bytes.length])].sort(
    (a, b) => a - b,
  );
  return at.slice(1).map((end, index) => bytes.subarray(at[index], end));
}

/** A copy with its own memory block. */
function owned(bytes: Buffer): Buffer {
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
}

function readAll(reader: FrameReader): { type: number; content: string }[] {
  const frames = [];
  for (let next = reader.next(); next; next = reader.next())
    frames.push({ type: next.type, content: contentOf(next).toString('utf8') });
  return frames;
}

const header = (length: number, type: number) => {
  const bytes = Buffer.alloc(5);
  bytes.writeUInt32LE(length, 0);
  bytes[4] = type;
  return bytes;
};

describe('the frame reader', () => {
  test('returns the sent frames for any chunking, and charges each byte once', () => {
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 6 }), fc.array(fc.nat(40_000)), (frames, places) => {
        const bytes = Buffer.concat(frames.map(({ type, content }) => encodeFrame(type, content)));
        let charged = 0;
        const reader = createFrameReader(
          () => 1_000_000,
          (count) => {
            charged += count;
          },
        );
        const received = cut(bytes, places).flatMap((chunk, n) => {
          // Those of a socket have their own memory.
          reader.push(n % 2 === 0 ? owned(chunk) : chunk);
          return readAll(reader);
        });
        expect(received).toEqual(
          frames.map(({ type, content }) => ({ type, content: JSON.stringify(content) })),
        );
        expect(charged).toBe(bytes.length);
        expect(reader.partial).toBe(false);
      }),
    );
  });

  test('returns the same frames byte by byte, and if all bytes are pushed before the first read', () => {
    const frames = [0, 1, 5000].map((length) => encodeFrame(FRAME.log, 'x'.repeat(length)));
    const bytes = Buffer.concat(frames);
    const single = createFrameReader(() => 10_000);
    const several = createFrameReader(() => 10_000);
    const received = [];
    for (const byte of bytes) {
      single.push(Buffer.of(byte));
      several.push(Buffer.of(byte));
      received.push(...readAll(single));
    }
    expect(received).toHaveLength(3);
    expect(readAll(several)).toEqual(received);
  });

  test('keeps received megabytes where they are, and no memory that a following frame needs', () => {
    const bytes = Buffer.concat([encodeFrame(FRAME.emit, 'x'.repeat(150_000)), encodeFrame(FRAME.log, 'y')]);
    const chunks = [0, 50_000, 100_000].map((at) => owned(bytes.subarray(at, at + 50_000)));
    chunks.push(owned(bytes.subarray(150_000)));
    const reader = createFrameReader(() => 1_000_000);
    for (const chunk of chunks) reader.push(chunk);
    const { parts, owned: isOwned } = reader.next()!;
    expect([
      isOwned,
      parts.map(({ buffer }) => chunks.findIndex((chunk) => chunk.buffer === buffer)),
    ]).toEqual([true, [0, 1, 2, -1]]);
    expect(readAll(reader)).toEqual([{ type: FRAME.log, content: '"y"' }]);
  });

  test('charges bytes of an incomplete frame as they arrive, and buffers little more than those', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 300_000 }), fc.array(fc.nat(20_000)), (size, lengths) => {
        let charged = 0;
        const reader = createFrameReader(
          () => size,
          (count) => {
            charged += count;
          },
        );
        let sent = 5;
        reader.push(header(size + 1, FRAME.emit));
        expect(reader.next()).toBeUndefined();
        for (const length of lengths) {
          if (sent + length >= size + 5) break;
          reader.push(Buffer.alloc(length));
          expect(reader.next()).toBeUndefined();
          sent += length;
          expect(charged).toBe(sent);
          expect(reader.partial).toBe(true);
          expect(reader.heldBytes).toBeLessThanOrEqual(Math.min(size, Math.max(4096, 2 * sent)));
        }
      }),
    );
  });

  test.each([
    ['longer than its type may be', header(102, FRAME.emit)],
    ['of length 0', header(0, FRAME.emit)],
    ['of length 0xFFFFFFFF', header(0xffffffff, FRAME.emit)],
    ['of a type that a child does not send', header(2, FRAME.call)],
  ])('refuses a frame %s as soon as its header has arrived, whole or in parts', (_name, bytes) => {
    const create = () => createFrameReader((type) => (type === FRAME.emit ? 100 : undefined));
    const whole = create();
    whole.push(bytes);
    expect(() => whole.next()).toThrow(ProtocolError);
    const parts = create();
    for (const byte of bytes.subarray(0, 4)) {
      parts.push(Buffer.of(byte));
      expect(parts.next()).toBeUndefined();
    }
    parts.push(bytes.subarray(4));
    expect(() => parts.next()).toThrow(ProtocolError);
  });

  test('returns frames or throws a ProtocolError for any bytes', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 64 })), (chunks) => {
        const reader = createFrameReader((type) => (type < 100 ? 1000 : undefined));
        try {
          for (const chunk of chunks) {
            reader.push(Buffer.from(chunk));
            readAll(reader);
          }
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError);
        }
      }),
    );
  });
});

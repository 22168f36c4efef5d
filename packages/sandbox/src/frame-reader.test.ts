import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createFrameBlocks, type FrameBlocks } from './frame-blocks.ts';
import { contentOf, createFrameReader, type Frame, type FrameReader } from './frame-reader.ts';
import { encodeFrame } from './frames.fixture.ts';
import { FRAME, ProtocolError } from './protocol.ts';

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
        const reader = createFrameReader(() => 1_000_000, {
          onBytes(count) {
            charged += count;
          },
        });
        const received = cut(bytes, places).flatMap((chunk) => {
          reader.push(chunk);
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

  test('returns the sent frames if the memory of each chunk is used again', () => {
    fc.assert(
      fc.property(
        fc.array(frame, { maxLength: 6 }),
        fc.array(fc.nat(40_000)),
        fc.nat(2),
        (frames, places, perChunk) => {
          const bytes = Buffer.concat(frames.map(({ type, content }) => encodeFrame(type, content)));
          const memory = Buffer.alloc(bytes.length);
          const reader = createFrameReader(() => 1_000_000, { blocks: createFrameBlocks() });
          const received: { type: number; content: string }[] = [];
          const read = (most: number) => {
            for (let n = 0; n < most; n += 1) {
              const next = reader.next();
              if (!next) break;
              received.push({ type: next.type, content: contentOf(next).toString('utf8') });
              next.release();
            }
          };
          for (const chunk of cut(bytes, places)) {
            memory.set(chunk);
            reader.push(memory.subarray(0, chunk.length));
            read(perChunk);
            reader.keep();
            memory.fill(0);
          }
          read(frames.length);
          expect(received).toEqual(
            frames.map(({ type, content }) => ({ type, content: JSON.stringify(content) })),
          );
        },
      ),
    );
  });

  test('the blocks of a frame are used again once it is released, or dropped incomplete', () => {
    const taken: Buffer[] = [];
    const own = createFrameBlocks();
    const blocks: FrameBlocks = {
      take(bytes) {
        const block = own.take(bytes);
        if (block.buffer instanceof SharedArrayBuffer) taken.push(block);
        return block;
      },
      give: own.give,
    };
    const bytes = encodeFrame(FRAME.emit, 'x'.repeat(700_000));
    const parts = [bytes.subarray(0, 100), bytes.subarray(100, 690_000), bytes.subarray(690_000)];
    const read = (count: number) => {
      const reader = createFrameReader(() => 1_000_000, { blocks });
      let last: Frame | undefined;
      for (const part of parts.slice(0, count)) {
        reader.push(part);
        last = reader.next();
      }
      return { reader, last };
    };
    const first = read(3).last!;
    const second = read(2);
    const before = new Set(taken.splice(0));
    // Of each: 4 + 4 + 8 + 16 + 32 + 64 + 4 * 128 KB; the rest is not shared.
    expect(before.size).toBe(20);
    first.release();
    first.release();
    second.reader.close();
    read(3);
    read(3);
    expect(taken).toHaveLength(20);
    expect(new Set(taken)).toEqual(before);
  });

  test('shared memory is bounded, and every block of it is used again', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 1_000_000 }), { maxLength: 60 }), (sizes) => {
        const shared = new Set<Buffer>();
        const own = createFrameBlocks();
        const blocks: FrameBlocks = {
          take(bytes) {
            const block = own.take(bytes);
            expect(block).toHaveLength(bytes);
            if (block.buffer instanceof SharedArrayBuffer) shared.add(block);
            return block;
          },
          give: own.give,
        };
        const sharedBytes = () => [...shared].reduce((sum, { length }) => sum + length, 0);
        const readFrames = () =>
          sizes.map((size) => {
            const reader = createFrameReader(() => 1_000_000, { blocks });
            reader.push(header(size + 1, FRAME.emit));
            reader.next();
            reader.push(Buffer.alloc(size));
            return reader.next()!;
          });
        for (const one of readFrames()) one.release();
        const before = sharedBytes();
        expect(before).toBeLessThanOrEqual(32 * 1024 * 1024);
        readFrames();
        expect(sharedBytes()).toBe(before);
      }),
      { numRuns: 30 },
    );
  });

  test('charges bytes of an incomplete frame as they arrive, and buffers little more than those', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 300_000 }), fc.array(fc.nat(20_000)), (size, lengths) => {
        let charged = 0;
        const reader = createFrameReader(() => size, {
          onBytes(count) {
            charged += count;
          },
        });
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

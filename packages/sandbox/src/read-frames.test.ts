import { describe, expect, test } from '@jest/globals';
import { LIMITS } from '@wellspring/contract/limits';
import fc from 'fast-check';
import { FRAME, ProtocolError } from './protocol.ts';
import { readFrame } from './read-frames.ts';
import { createRecorder } from './sandbox.kit.ts';

const bytes = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));

function emitFrame(head: unknown, payload: string): Buffer {
  const json = bytes(head);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(json.length, 0);
  return Buffer.concat([length, json, Buffer.from(payload)]);
}

const HEAD = { id: null, name: '', summary: null, ts: null, at: 1, delivery_ts: null };
const DEFINITION = {
  name: 'x',
  key: null,
  version: '',
  type: 'source',
  description: null,
  props: [],
  hooks: [],
  dedupe: null,
  has_run: true,
  additional_props: false,
};

function apply(type: number, content: Buffer) {
  const host = createRecorder();
  const says = readFrame(type, content);
  if (says.type === 'act') says.apply(host);
  return host;
}

describe('what a child says', () => {
  test('reaches the host as it was said', () => {
    expect(apply(FRAME.emit, emitFrame({ ...HEAD, id: 7, name: 'n' }, '{"a":"ü"}')).emits).toEqual([
      { ...HEAD, id: 7, name: 'n', payload: '{"a":"ü"}' },
    ]);
    expect(apply(FRAME.dbSet, bytes({ key: 'k', json: '[1]' })).db).toEqual({ k: '[1]' });
    expect(apply(FRAME.respond, bytes({ status: 200, headers: { a: ['b'] }, body: '' })).replies).toEqual([
      { status: 200, headers: { a: ['b'] }, body: '' },
    ]);
  });

  test.each<[string, number, Buffer]>([
    ['an emit that is no JSON', FRAME.emit, emitFrame(HEAD, '{"a":')],
    ['an emit that continues the JSON around it', FRAME.emit, emitFrame(HEAD, '1},{"forged":1')],
    ['an emit whose head is longer than the frame', FRAME.emit, Buffer.from([255, 0, 0, 0, 1])],
    ['an emit without content', FRAME.emit, Buffer.alloc(0)],
    ['an emit with a name that is no text', FRAME.emit, emitFrame({ ...HEAD, name: {} }, '1')],
    ['an emit with a name too long', FRAME.emit, emitFrame({ ...HEAD, name: 'ü'.repeat(129) }, '1')],
    ['an emit with an id that is an object', FRAME.emit, emitFrame({ ...HEAD, id: { a: 1 } }, '1')],
    ['an emit with an id too long', FRAME.emit, emitFrame({ ...HEAD, id: 'x'.repeat(1025) }, '1')],
    ['an emit with a head too long', FRAME.emit, emitFrame({ ...HEAD, more: 'x'.repeat(70_000) }, '1')],
    ['an emit nested too deeply', FRAME.emit, emitFrame(HEAD, `${'['.repeat(300)}${']'.repeat(300)}`)],
    [
      'an emit whose bytes are more as text',
      FRAME.emit,
      Buffer.concat([emitFrame(HEAD, '"'), Buffer.alloc(LIMITS.emit - 10, 0xff), Buffer.from('"')]),
    ],
    ['a log line of a megabyte', FRAME.log, bytes({ ts: 1, level: 'info', msg: 'x'.repeat(1e6) })],
    ['a db value of many megabytes', FRAME.dbSet, bytes({ key: 'k', json: JSON.stringify('x'.repeat(3e6)) })],
    ['a definition of many megabytes', FRAME.end, bytes({ ok: true, definition: { a: 'x'.repeat(3e6) } })],
    ['a word more than ready', FRAME.ready, Buffer.alloc(1000)],
    [
      'a definition with a thousand timers',
      FRAME.end,
      bytes({
        ok: true,
        definition: {
          ...DEFINITION,
          props: Array.from({ length: 400 }, (_, n) => ({ name: `t${n}`, type: '$.interface.timer' })),
        },
      }),
    ],
    ['an emit without time', FRAME.emit, emitFrame({ ...HEAD, at: null }, '1')],
    ['a db value that is no JSON', FRAME.dbSet, bytes({ key: 'k', json: '{' })],
    ['a db key that is no text', FRAME.dbSet, bytes({ key: 1, json: '1' })],
    ['a status out of range', FRAME.respond, bytes({ status: 99, headers: {}, body: '' })],
    ['headers that are no texts', FRAME.respond, bytes({ status: 200, headers: { a: 1 }, body: '' })],
    ['a log line of an unknown level', FRAME.log, bytes({ ts: 1, level: 'fatal', msg: '' })],
    ['a definition without a name', FRAME.end, bytes({ ok: true, definition: { ...DEFINITION, name: '' } })],
    [
      'a definition of an unknown type',
      FRAME.end,
      bytes({ ok: true, definition: { ...DEFINITION, type: 'x' } }),
    ],
    ['a list', FRAME.log, bytes([])],
    ['garbage', FRAME.log, Buffer.from([0xff, 0xfe])],
    ['a frame of an unknown type', 99, bytes({})],
    ['a frame that only the platform sends', FRAME.call, bytes({})],
  ])('%s is refused', (_name, type, content) => {
    expect(() => readFrame(type, content)).toThrow(ProtocolError);
  });

  test('carries no __proto__, however it is written, and no fields that nobody asked for', () => {
    const written = JSON.stringify({
      ok: true,
      definition: {
        ...DEFINITION,
        props: [{ name: 'p', type: 'string', PROTO: { polluted: true } }],
        extra: 1,
      },
    });
    for (const key of ['__proto__', '\\u005f_proto__']) {
      const says = readFrame(FRAME.end, bytes(written.replace('PROTO', key)));
      if (says.type !== 'end') throw new Error('not an end');
      expect(says.end.definition).toEqual({ ...DEFINITION, props: [{ name: 'p', type: 'string' }] });
      expect(Object.keys(says.end.definition!.props[0]!)).toEqual(['name', 'type']);
    }
  });

  test('is one line, however an emit was written', () => {
    const { emits } = apply(FRAME.emit, emitFrame(HEAD, '{\r\n"a":\n\n1}'));
    expect(emits.map(({ payload }) => payload)).toEqual(['{"a":1}']);
  });

  test('is cut where a line is too long', () => {
    const { logs } = apply(FRAME.log, bytes({ ts: 1, level: 'info', msg: 'x'.repeat(LIMITS.logLine + 100) }));
    expect(Buffer.byteLength(logs[0]!.msg)).toBeLessThanOrEqual(LIMITS.logLine);
  });

  test('is understood or refused, whatever it is', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...Object.values(FRAME)),
        fc.oneof(
          fc.jsonValue().map(bytes),
          fc.uint8Array().map((array) => Buffer.from(array)),
        ),
        (type, content) => {
          try {
            apply(type, content);
          } catch (error) {
            expect(error).toBeInstanceOf(ProtocolError);
          }
        },
      ),
    );
  });
});

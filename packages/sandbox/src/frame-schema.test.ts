import { describe, expect, test } from '@jest/globals';
import { readDefinition } from '@wellspring/component/program/define';
import { PROP_FIELDS } from '@wellspring/contract/definition-rules';
import { LIMITS } from '@wellspring/contract/limits';
import fc from 'fast-check';
import { type ChildMessage, maxFrameBytes, readFrame } from './frame-schema.ts';
import { FRAME, ProtocolError } from './protocol.ts';

const bytes = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));

/** The content of a frame with a head and a payload. */
function withHead(head: unknown, payload: string): Buffer {
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

/** Checks the size before reading the content, as the channel does. */
function read(type: number, content: Buffer, call: 'define' | 'run' = 'define'): ChildMessage {
  const max = maxFrameBytes(type, call);
  if (max === undefined || content.length > max) throw new ProtocolError('too large');
  return readFrame(type, content);
}

describe('a frame of a child', () => {
  test('is read as it was sent', () => {
    expect(read(FRAME.emit, withHead({ ...HEAD, id: 7, name: 'n' }, '{"a":"ü"}'))).toEqual({
      type: 'emit',
      emit: { ...HEAD, id: 7, name: 'n', payload: '{"a":"ü"}' },
    });
    expect(read(FRAME.emit, withHead({ at: 1 }, '2'))).toEqual({
      type: 'emit',
      emit: { ...HEAD, payload: '2' },
    });
    expect(read(FRAME.dbSet, withHead(JSON.stringify('\ud800'), '[1]'))).toEqual({
      type: 'dbSet',
      key: '\ud800',
      json: '[1]',
    });
    expect(read(FRAME.dbSet, withHead('"k"', ''))).toEqual({ type: 'dbSet', key: 'k', json: undefined });
    expect(read(FRAME.respond, bytes({ status: 200, headers: { a: ['b'] }, body: '' }))).toEqual({
      type: 'respond',
      reply: { status: 200, headers: { a: ['b'] }, body: '' },
    });
    expect(read(FRAME.end, bytes({ ok: true, definition: DEFINITION }))).toEqual({
      type: 'end',
      end: { ok: true, definition: DEFINITION },
    });
  });

  test.each<[string, number, Buffer]>([
    ['an emit that is not JSON', FRAME.emit, withHead(HEAD, '{"a":')],
    ['an emit that continues the JSON around it', FRAME.emit, withHead(HEAD, '1},{"forged":1')],
    ['an emit whose head is longer than the frame', FRAME.emit, Buffer.from([255, 0, 0, 0, 1])],
    ['an emit without content', FRAME.emit, Buffer.alloc(0)],
    ['an emit with a name that is not a string', FRAME.emit, withHead({ ...HEAD, name: {} }, '1')],
    ['an emit with a name too long', FRAME.emit, withHead({ ...HEAD, name: 'ü'.repeat(129) }, '1')],
    ['an emit on a channel of the platform', FRAME.emit, withHead({ ...HEAD, name: '$logs' }, '1')],
    ['an emit with an id that is an object', FRAME.emit, withHead({ ...HEAD, id: { a: 1 } }, '1')],
    ['an emit with an id too long', FRAME.emit, withHead({ ...HEAD, id: 'x'.repeat(1025) }, '1')],
    ['an emit with a head too long', FRAME.emit, withHead({ ...HEAD, more: 'x'.repeat(70_000) }, '1')],
    ['an emit nested too deeply', FRAME.emit, withHead(HEAD, `${'['.repeat(300)}${']'.repeat(300)}`)],
    [
      'an emit whose text has more bytes than the frame',
      FRAME.emit,
      Buffer.concat([withHead(HEAD, '"'), Buffer.alloc(LIMITS.emit - 10, 0xff), Buffer.from('"')]),
    ],
    ['a log line of a megabyte', FRAME.log, bytes({ ts: 1, level: 'info', msg: 'x'.repeat(1e6) })],
    ['a db value of many kilobytes', FRAME.dbSet, withHead('"k"', JSON.stringify('x'.repeat(2e5)))],
    [
      'a response with too many headers',
      FRAME.respond,
      bytes({ status: 200, headers: { a: Array(1000).fill('b') }, body: '' }),
    ],
    [
      'a response with too many headers without values',
      FRAME.respond,
      bytes({
        status: 200,
        headers: Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`h${n}`, []])),
        body: '',
      }),
    ],
    [
      'a response with a header without values whose name is too long',
      FRAME.respond,
      bytes({ status: 200, headers: { ['h'.repeat(100_000)]: [] }, body: '' }),
    ],
    ['a response with a list as headers', FRAME.respond, bytes({ status: 200, headers: ['a'], body: '' })],
    [
      'a definition nested too deeply',
      FRAME.end,
      Buffer.from(`{"ok":true,"definition":${'['.repeat(300)}${']'.repeat(300)}}`),
    ],
    [
      'a definition with very many values',
      FRAME.end,
      bytes({
        ok: true,
        definition: { ...DEFINITION, props: [{ name: 'p', type: 'string', options: Array(30_000).fill(1) }] },
      }),
    ],
    [
      'a definition whose prop has a label that is not a string',
      FRAME.end,
      bytes({ ok: true, definition: { ...DEFINITION, props: [{ name: 'p', type: 'string', label: {} }] } }),
    ],
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
    ['an emit without time', FRAME.emit, withHead({ ...HEAD, at: null }, '1')],
    ['a db value that is not JSON', FRAME.dbSet, withHead('"k"', '{')],
    ['a db value nested too deeply', FRAME.dbSet, withHead('"k"', `${'['.repeat(300)}${']'.repeat(300)}`)],
    ['a db key that is not a string', FRAME.dbSet, withHead(1, '1')],
    ['a db key that is longer than the frame', FRAME.dbSet, Buffer.from([255, 0, 0, 0, 1])],
    ['a db value without content', FRAME.dbSet, Buffer.alloc(0)],
    ['a status out of range', FRAME.respond, bytes({ status: 99, headers: {}, body: '' })],
    ['headers that are not strings', FRAME.respond, bytes({ status: 200, headers: { a: 1 }, body: '' })],
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
    expect(() => read(type, content)).toThrow(ProtocolError);
  });

  test('that ends a run cannot contain a list of a million elements', () => {
    const list = bytes({ ok: true, definition: { a: Array(1_000_000).fill(1) } });
    expect(() => read(FRAME.end, list, 'run')).toThrow(ProtocolError);
    expect(read(FRAME.end, bytes({ ok: true }), 'run')).toEqual({ type: 'end', end: { ok: true } });
  });

  test('contains no __proto__ in any notation, and only fields of the schema', () => {
    const written = JSON.stringify({
      ok: true,
      definition: {
        ...DEFINITION,
        props: [
          {
            name: 'p',
            type: 'string',
            PROTO: { polluted: true },
            default: { a: 1, PROTO: { b: 1 } },
            more: 1,
          },
        ],
        extra: 1,
      },
    });
    for (const key of ['__proto__', '\\u005f_proto__']) {
      const says = read(FRAME.end, bytes(written.replaceAll('PROTO', key)));
      if (says.type !== 'end' || !says.end.ok) throw new Error('not an end');
      expect(says.end.definition).toEqual({
        ...DEFINITION,
        props: [{ name: 'p', type: 'string', default: { a: 1 } }],
      });
      const [prop] = says.end.definition!.props;
      expect(Object.keys(prop!)).toEqual(['name', 'type', 'default']);
      expect(Object.keys(prop!.default as object)).toEqual(['a']);
    }
    const reply = '{"status":200,"headers":{"__proto__":{"x":1},"a":"b"},"body":""}';
    expect(read(FRAME.respond, bytes(reply))).toMatchObject({ reply: { headers: { a: 'b' } } });
  });

  test('is accepted with every definition that the program of the children can produce', () => {
    const number = fc.constantFrom(1, -0.5, Number.POSITIVE_INFINITY, Number.NaN);
    const field = fc.oneof(fc.boolean(), fc.string(), number, fc.jsonValue());
    const names = Object.values(PROP_FIELDS).flat();
    const prop = fc.record(
      {
        type: fc.string({ minLength: 1 }),
        app: fc.string(),
        options: field,
        ...Object.fromEntries(names.map((name) => [name, field])),
        min: number,
      },
      { requiredKeys: ['type'] },
    );
    const text = fc.oneof(fc.string(), fc.string({ minLength: 200, maxLength: 2000, size: 'max' }));
    const exported = fc.record(
      {
        name: text,
        key: fc.oneof(text, fc.constant('a-key')),
        version: fc.oneof(text, fc.double()),
        type: fc.constantFrom('source', 'app', 'other'),
        description: field,
        props: fc.dictionary(fc.string(), prop),
        hooks: fc.constant({ deploy() {}, other() {} }),
        dedupe: fc.constantFrom('unique', 'last', 'first'),
      },
      { requiredKeys: ['name'] },
    );
    let accepted = 0;
    const isAccepted = fc.property(exported, (value) => {
      let definition: ReturnType<typeof readDefinition>;
      try {
        definition = readDefinition(value);
      } catch {
        return;
      }
      read(FRAME.end, bytes({ ok: true, definition }));
      accepted += 1;
    });
    fc.assert(isAccepted, { numRuns: 500 });
    expect(accepted).toBeGreaterThan(50);
  });

  test('contains an event as one line, regardless of its white space', () => {
    expect(read(FRAME.emit, withHead(HEAD, '{\r\n"a":\n\n1}'))).toMatchObject({
      emit: { payload: '{  "a":  1}' },
    });
  });

  test('contains a truncated log line if it is too long', () => {
    const message = read(FRAME.log, bytes({ ts: 1, level: 'info', msg: 'x'.repeat(LIMITS.logLine + 100) }));
    if (message.type !== 'log') throw new Error('not a log line');
    expect(Buffer.byteLength(message.line.msg)).toBeLessThanOrEqual(LIMITS.logLine);
  });

  test('with options or props holds only what its schema has', () => {
    const end = (content: string) => read(FRAME.end, Buffer.from(`{"ok":true,${content}}`));
    expect(
      end('"options":{"options":[{"label":"L","value":{"__proto__":1,"a":2},"more":3}],"context":[1]}'),
    ).toEqual({
      type: 'end',
      end: { ok: true, options: { options: [{ label: 'L', value: { a: 2 } }], context: [1] } },
    });
    expect(end('"props":[{"name":"n","type":"t","hidden":true,"run":"x"}]')).toEqual({
      type: 'end',
      end: { ok: true, props: [{ name: 'n', type: 't', hidden: true }] },
    });
    const many = JSON.stringify(Array.from({ length: 10_001 }, () => ({ label: '' })));
    for (const content of [
      '"options":{"options":[{"label":1}]}',
      '"options":{"options":{}}',
      '"options":7',
      `"options":{"options":${many}}`,
      '"props":{}',
      '"props":[{"name":1,"type":"t"}]',
      '"props":[{"name":"n","type":"t","hidden":"yes"}]',
    ])
      expect(() => end(content)).toThrow(ProtocolError);
  });

  test('is read or refused, for any bytes', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...Object.values(FRAME)),
        fc.oneof(
          fc.jsonValue().map(bytes),
          fc.uint8Array().map((array) => Buffer.from(array)),
        ),
        (type, content) => {
          try {
            read(type, content);
          } catch (error) {
            expect(error).toBeInstanceOf(ProtocolError);
          }
        },
      ),
    );
  });
});

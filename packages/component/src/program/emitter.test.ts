import { describe, expect, test } from '@jest/globals';
import { LIMITS } from '@wellspring/contract/limits';
import { payloads, program, run, said, start, value } from './program.fixture.ts';

describe('$emit', () => {
  test('serialises at once: later changes change nothing', async () => {
    await run((self) => {
      const event = { n: 1 };
      self.$emit(event);
      event.n = 2;
      self.$emit(event);
      self.$emit();
    });
    expect(said.emits.map(({ payload }) => payload)).toEqual(['{"n":1}', '{"n":2}', 'null']);
  });

  test('a value without JSON form is a fault, and the other events stay', async () => {
    await run((self) => {
      const circular: Record<string, unknown> = {};
      circular.self = circular;
      self.$emit(circular);
      self.$emit(1n);
      self.$emit('kept');
    });
    expect(payloads()).toEqual(['kept']);
    expect(said.faults).toHaveLength(2);
    expect(said.faults[0]!.message).toMatch(/not emitted: it cannot be serialised/);
  });

  test.each([
    ['a function', () => 1],
    ['a symbol', Symbol('s')],
    ['an object whose toJSON returns nothing', { toJSON() {} }],
  ])('%s is a fault, not the event null', async (_, event) => {
    await run((self) => self.$emit(event));
    expect(payloads()).toEqual([]);
    expect(said.faults).toMatchObject([
      { name: 'EmitError', message: 'The event was not emitted: JSON cannot hold it.' },
    ]);
  });

  test('a name of more than 256 bytes, an id of more than 1 KB, events too large or too deep are faults', async () => {
    await run((self) => {
      self.$emit(1, { name: 'é'.repeat(129) });
      self.$emit(2, { name: 'é'.repeat(128) });
      self.$emit('x'.repeat(LIMITS.emit));
      self.$emit(3, { id: 'x'.repeat(1025) });
      self.$emit(JSON.parse(`${'['.repeat(300)}${']'.repeat(300)}`));
    });
    expect(payloads()).toEqual([2]);
    expect(said.faults.map(({ message }) => message)).toEqual([
      expect.stringMatching(/more than 256 bytes/),
      expect.stringMatching(/more than 6 MB/),
      expect.stringMatching(/id has more than 1024 bytes/),
      expect.stringMatching(/more than 256 levels deep/),
    ]);
  });

  test.each(['$errors', '$logs', '$in'])('on the reserved channel %s is a fault', async (name) => {
    await run((self) => {
      self.$emit(1, { name });
      self.$emit(2, { name: `${name}2` });
      self.$emit(3, { name: name.slice(1) });
    });
    expect(payloads()).toEqual([2, 3]);
    expect(said.faults).toMatchObject([
      { name: 'EmitError', message: `The event was not emitted: the channel ${name} is reserved.` },
    ]);
  });

  test.each([
    [0, 0],
    ['a', 'a'],
    [null, null],
    [undefined, null],
    [Number.NaN, null],
    [true, 'true'],
    [12345678901234567890n, '12345678901234567890'],
    [new Date(5000), String(new Date(5000))],
    [new URL('https://example.com/1'), 'https://example.com/1'],
    ['[object Object]', '[object Object]'],
  ])('the id %p is kept as %p', async (given, kept) => {
    await run((self) => self.$emit(1, { id: given }));
    expect(said.emits[0]!.id).toBe(kept);
  });

  test.each([
    ['an object', { key: 1 }],
    ['an array of objects', [1, { key: 1 }]],
    ['a promise', Promise.resolve(1)],
    ['an object without a text form', Object.create(null)],
    ['a function', () => 1],
    ['a symbol', Symbol('s')],
  ])('an id that is %s is a fault: all such ids would be equal for dedupe', async (_, id) => {
    await run((self) => {
      self.$emit(1, { id });
      self.$emit(2, { id: 2 });
    });
    expect(payloads()).toEqual([2]);
    expect(said.faults).toMatchObject([
      { name: 'EmitError', message: 'The event was not emitted: its id is neither a text nor a number.' },
    ]);
  });

  test('an id whose text changes is read once', async () => {
    let reads = 0;
    await run((self) => self.$emit(1, { id: { toString: () => `${++reads}` } }));
    expect(said.emits[0]!.id).toBe('1');
  });

  test.each([
    [1700000000123, 1700000000123],
    [new Date(5000), 5000],
    ['2020-01-01T00:00:00Z', 1577836800000],
    ['1700000000123', 1700000000123],
    [undefined, null],
    [null, null],
  ])('the ts %p is read as %p', async (given, ts) => {
    await run((self) => self.$emit(1, { ts: given }));
    expect(said.emits[0]!.ts).toBe(ts);
  });

  test.each(['never', '1763628000.000100', {}, new Date(Number.NaN), Number.POSITIVE_INFINITY])(
    'the invalid ts %p is the time of the emit',
    async (given) => {
      await run((self) => self.$emit(1, { ts: given }));
      expect(said.emits[0]!.ts).toBe(said.emits[0]!.at);
    },
  );

  test('a summary is text of at most 1 KB', async () => {
    await run((self) => {
      self.$emit(1, { summary: 42 });
      self.$emit(1, { summary: 'é'.repeat(1000) });
      self.$emit(1, 'no metadata');
    });
    expect(said.emits.map(({ summary }) => summary)).toEqual(['42', 'é'.repeat(512), null]);
  });

  test('a component without run emits its trigger event', async () => {
    start({});
    await program.run(value({ timestamp: 1 }), true);
    expect(payloads()).toEqual([{ timestamp: 1 }]);
  });
});

import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { readDefinition, readProps } from './define.ts';

const component = (fields: object) => ({ name: 'Tested', ...fields });
const propsOf = (props: object) => readDefinition(component({ props })).props;

describe('readDefinition', () => {
  test.each([
    [42],
    [null],
    [undefined],
    ['text'],
    [[]],
    [() => {}],
    [{}],
    [{ name: '' }],
    [{ name: ' ' }],
    [{ name: 1 }],
  ])('refuses %p as a component, and the message names what is missing', (exported) => {
    expect(() => readDefinition(exported)).toThrow(/has to export an object|needs a name/);
  });

  test('only a name is needed; the rest has its defaults', () => {
    expect(readDefinition({ name: 'Least', inventedLater: () => 1 })).toEqual({
      name: 'Least',
      key: null,
      version: '',
      type: 'source',
      description: null,
      props: [],
      hooks: [],
      dedupe: null,
      has_run: false,
      additional_props: false,
    });
  });

  test('an action needs run, a source does not', () => {
    expect(() => readDefinition(component({ type: 'action' }))).toThrow('An action needs a run function.');
    expect(readDefinition(component({ type: 'action', run() {} })).has_run).toBe(true);
  });

  test.each([
    [{ type: 'thing' }, /type of the component/],
    [{ run: 'later' }, /run has to be a function/],
    [{ key: 'Has Spaces' }, /key of the component/],
    [{ key: 7 }, /key of the component/],
    [{ version: '1'.repeat(257) }, /version of the component has more than 256/],
    [{ dedupe: 'latest' }, /dedupe has to be/],
    [{ hooks: 5 }, /hooks has to be an object/],
    [{ hooks: { activate: 'no' } }, /The hook activate has to be a function/],
    [{ methods: [] }, /methods has to be an object/],
    [{ props: [] }, /props has to be an object/],
    [{ props: { a: 5 } }, /The prop a has to be/],
    [{ props: { a: {} } }, /The prop a needs a type/],
    [{ props: { a: { type: 'app' } } }, /has to name its app/],
  ])('%p is refused', (fields, message) => {
    expect(() => readDefinition(component(fields))).toThrow(message);
  });

  test('hooks are the known ones that are given', () => {
    const hooks = { deploy() {}, activate: undefined, deactivate: async () => {}, other: 'no' };
    expect(readDefinition(component({ hooks })).hooks).toEqual(['deploy', 'deactivate']);
  });
});

describe('props', () => {
  test('keep their order; a text is a type, an app object an app prop', () => {
    const app = { type: 'app', app: 'rss', methods: { fetch() {} }, propDefinitions: {} };
    expect(propsOf({ z: 'string', db: '$.service.db', app, a: { type: 'integer', min: 1, max: 9 } })).toEqual(
      [
        { name: 'z', type: 'string' },
        { name: 'db', type: '$.service.db' },
        { name: 'app', type: 'app', app: 'rss' },
        { name: 'a', type: 'integer', min: 1, max: 9 },
      ],
    );
  });

  test('a propDefinition gives the attributes, and those beside it win', () => {
    const app = {
      type: 'app',
      app: 'chat',
      propDefinitions: {
        base: { type: 'string', label: 'Base', description: 'inherited' },
        room: {
          propDefinition: [{ propDefinitions: { base: { type: 'string', secret: true } } }, 'base'],
          label: 'Room',
        },
      },
    };
    expect(propsOf({ rooms: { propDefinition: [app, 'room'], type: 'string[]', optional: true } })).toEqual([
      { name: 'rooms', type: 'string[]', label: 'Room', secret: true, optional: true },
    ]);
    expect(() => propsOf({ none: { propDefinition: [app, 'unknown'] } })).toThrow(
      /none is not defined by its app/,
    );
    expect(() => propsOf({ none: { propDefinition: 'room' } })).toThrow(/none is not defined by its app/);
  });

  test('a propDefinition that leads back to itself is refused', () => {
    const app: { propDefinitions: Record<string, unknown> } = { propDefinitions: {} };
    app.propDefinitions.loop = { propDefinition: [app, 'loop'] };
    expect(() => propsOf({ loop: { propDefinition: [app, 'loop'] } })).toThrow(/refers to itself/);
  });

  test('options are data, or true when a function gives them', () => {
    const [fixed, asked] = propsOf({
      fixed: { type: 'string', options: ['a', { label: 'B', value: 'b' }] },
      asked: { type: 'string', options: async () => [] },
    });
    expect(fixed!.options).toEqual(['a', { label: 'B', value: 'b' }]);
    expect(asked!.options).toBe(true);
  });

  test('fields that only people or other programs use are kept', () => {
    const fields = {
      format: 'file-ref',
      placeholder: 'https://',
      remoteOptions: true,
      auth: { app: 'mysql' },
    };
    expect(propsOf({ file: { type: 'string', ...fields } })).toEqual([
      { name: 'file', type: 'string', ...fields },
    ]);
  });

  test.each([
    [{ cron: '*/5 * * * *' }, { cron: '*/5 * * * *' }],
    [
      { cron: '0 9 * * *', timezone: 'Europe/Berlin' },
      { cron: '0 9 * * *', timezone: 'Europe/Berlin' },
    ],
    [{ intervalSeconds: 60 }, { intervalSeconds: 60 }],
    [{ interval_seconds: 60, default: null }, { interval_seconds: 60 }],
    [{ intervalSeconds: 60, default: { cron: '@daily' } }, { cron: '@daily' }],
    [{ timezone: 'Europe/Berlin' }, undefined],
  ])('a schedule among the attributes of a timer is its default: %j', (attributes, value) => {
    expect(propsOf({ timer: { type: '$.interface.timer', ...attributes } })[0]!.default).toEqual(value);
  });

  test('a static value of a timer wins over a schedule among its attributes', () => {
    const fixed = { intervalSeconds: 900 };
    expect(propsOf({ timer: { type: '$.interface.timer', static: fixed, cron: '@daily' } })).toEqual([
      { name: 'timer', type: '$.interface.timer', static: fixed },
    ]);
  });

  test('values without JSON form are left out', () => {
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    expect(
      propsOf({ a: { type: 'any', default: circular }, b: { type: 'any', default: () => 1, label: 5 } }),
    ).toEqual([
      { name: 'a', type: 'any' },
      { name: 'b', type: 'any' },
    ]);
  });
});

test('any export gives a definition in plain JSON or an Error with a sentence', () => {
  const anything = fc.anything({ withBigInt: true, withMap: true, withDate: true, withNullPrototype: true });
  const exported = fc.oneof(
    anything,
    fc.record(
      {
        name: fc.oneof(fc.string(), anything),
        props: fc.dictionary(fc.string(), anything),
        hooks: anything,
        version: anything,
      },
      { requiredKeys: ['name'] },
    ),
  );
  fc.assert(
    fc.property(exported, (value) => {
      try {
        const definition = readDefinition(value);
        expect(JSON.parse(JSON.stringify(definition))).toEqual(definition);
      } catch (error) {
        if ((error as { matcherResult?: unknown }).matcherResult) throw error;
        expect((error as Error).message).not.toBe('');
      }
    }),
  );
});

test('a component has no more props, and no more interfaces, than the platform can serve', () => {
  const props = (count: number, type: string) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`p${n}`, type]));
  expect(readDefinition({ name: 'x', props: props(500, 'string') }).props).toHaveLength(500);
  expect(() => readDefinition({ name: 'x', props: props(501, 'string') })).toThrow('more than 500 props');
  expect(readDefinition({ name: 'x', props: props(20, '$.interface.http') }).props).toHaveLength(20);
  expect(() => readDefinition({ name: 'x', props: props(21, '$.interface.http') })).toThrow(
    'more than 20 interfaces',
  );
});

test('a component has at most 2 MB of descriptions and props', () => {
  const tooLarge = /descriptions and props of the component have more than 2 MB/;
  const described = (description: string) => ({ a: { type: 'string', description } });
  expect(readProps(described('x'.repeat(2 * 2 ** 20 - 100)))).toHaveLength(1);
  expect(() => readProps(described('x'.repeat(2 * 2 ** 20)))).toThrow(tooLarge);
  expect(() => readDefinition(component({ description: 'é'.repeat(2 ** 20) }))).toThrow(tooLarge);
});

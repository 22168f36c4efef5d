import { describe, expect, test } from '@jest/globals';
import { payloads, program, type Self, start, value } from './program.fixture.ts';

const FIRST = { page: 0, prevContext: {} };
const valuesOf = async (prop: string, more: object = {}) =>
  (await program.options(prop, { ...FIRST, ...more })).options.map(({ value }) => value);

/** An app with a list that depends on its account. */
const app = {
  type: 'app',
  app: 'lists',
  propDefinitions: {
    item: {
      type: 'string',
      label: 'Item',
      async options(this: { $auth: Record<string, string> }, { kind, page }: Record<string, unknown>) {
        return [`${this.$auth.token ?? 'nobody'} ${kind} ${page}`];
      },
    },
    nested: { propDefinition: [] as unknown[] },
  },
  methods: {},
};
app.propDefinitions.nested.propDefinition = [app, 'item', { kind: 'nested' }];

describe('options', () => {
  test('texts, numbers, labelled values and a context become labels and values', async () => {
    start({
      props: {
        fixed: { type: 'string', options: ['a', { label: 'Bee', value: 'b' }] },
        paged: {
          type: 'integer',
          options: ({ prevContext }: { prevContext: { at?: number } }) => ({
            options: [1, null, { value: 2 }, { label: 'Three', value: { id: 3 } }],
            context: { at: (prevContext.at ?? 0) + 1 },
          }),
        },
        none: 'string',
      },
    });
    expect(await program.options('fixed', FIRST)).toEqual({
      options: [
        { label: 'a', value: 'a' },
        { label: 'Bee', value: 'b' },
      ],
      context: null,
    });
    expect(await program.options('paged', { page: 1, prevContext: { at: 1 } })).toEqual({
      options: [
        { label: '1', value: 1 },
        { label: '2', value: 2 },
        { label: 'Three', value: { id: 3 } },
      ],
      context: { at: 2 },
    });
    expect(await valuesOf('none')).toEqual([]);
  });

  test('of an app run on its app prop, with the inputs of each propDefinition that leads to them', async () => {
    start(
      {
        props: {
          other: { ...app },
          mine: app,
          kind: 'string',
          fixed: { propDefinition: [app, 'item', { kind: 'fixed' }] },
          computed: { propDefinition: [app, 'item', (given: { kind: string }) => ({ kind: given.kind })] },
          nested: { propDefinition: [app, 'nested'] },
          overridden: {
            propDefinition: [app, 'item', { kind: 'x' }],
            options(this: { kind: string }, { kind }: { kind: string }) {
              return [this.kind + kind];
            },
          },
        },
      },
      { values: { kind: 'feed' }, accounts: { mine: { token: 'me' } } },
    );
    expect(await valuesOf('fixed')).toEqual(['me fixed 0']);
    expect(await valuesOf('computed', { page: 2 })).toEqual(['me feed 2']);
    expect(await valuesOf('nested')).toEqual(['me nested 0']);
    expect(await valuesOf('overridden')).toEqual(['feedx']);
  });

  test('of an app that is no prop run without account', async () => {
    start({ props: { item: { propDefinition: [app, 'item', { kind: 'x' }] } } });
    expect(await valuesOf('item')).toEqual(['nobody x 0']);
  });

  test('search with a query only when the prop asks for it', async () => {
    const options = ({ query }: { query?: string }) => [String(query)];
    start({
      props: { searched: { type: 'string', useQuery: true, options }, listed: { type: 'string', options } },
    });
    expect(await valuesOf('searched', { query: 'word' })).toEqual(['word']);
    expect(await valuesOf('listed', { query: 'word' })).toEqual(['undefined']);
  });

  test('that are neither an array nor an object with one, too many or too large, are errors', async () => {
    const many = Array.from({ length: 10_001 }, (_, i) => i);
    const large = ['x'.repeat(1024 * 1024)];
    for (const given of ['text', { options: 7 }, many, large]) {
      start({ props: { item: { type: 'string', options: () => given } } });
      await expect(program.options('item', FIRST)).rejects.toThrow(/options/i);
    }
    await expect(program.options('unknown', FIRST)).rejects.toThrow('no prop unknown');
  });
});

describe('additionalProps', () => {
  const names = async () => (await program.props()).map(({ name }) => name);

  test('adds props, and replaces static ones of the same name', async () => {
    start(
      {
        props: { mode: { type: 'string', reloadProps: true }, note: { type: 'alert', content: 'a' } },
        additionalProps(this: { mode: string }, before: Record<string, Record<string, unknown>>) {
          return {
            note: { ...before.note, hidden: true },
            [this.mode]: { propDefinition: [app, 'item'], optional: true },
          };
        },
      },
      { values: { mode: 'rich' } },
    );
    expect(await program.props()).toMatchObject([
      { name: 'mode', type: 'string' },
      { name: 'note', content: 'a', hidden: true },
      { name: 'rich', type: 'string', label: 'Item', optional: true, options: true },
    ]);
  });

  test('may return the props it was given, changed; the component stays as it is', async () => {
    const props = { mode: { type: 'string', reloadProps: true, label: 'Mode' } };
    start({
      props,
      additionalProps(before: Record<string, Record<string, unknown>>) {
        before.mode!.label = 'Changed';
        before.more = { type: 'string' };
        return before;
      },
    });
    expect(await program.props()).toMatchObject([{ name: 'mode', label: 'Changed' }, { name: 'more' }]);
    expect(props.mode.label).toBe('Mode');
  });

  test('may change static props without returning them', async () => {
    start({
      props: { mode: { type: 'string', reloadProps: true }, note: { type: 'alert', hidden: true } },
      additionalProps(before: Record<string, Record<string, unknown>>) {
        before.note!.hidden = false;
        before.stray = { type: 'string' };
        return {};
      },
    });
    expect(await program.props()).toEqual([
      { name: 'mode', type: 'string', reloadProps: true },
      { name: 'note', type: 'alert', hidden: false },
    ]);
  });

  test('sees values of dynamic props, and their defaults in a second round', async () => {
    const component = {
      props: { mode: { type: 'string', reloadProps: true } },
      additionalProps(this: { kind?: string }) {
        return {
          kind: { type: 'string', reloadProps: true, default: 'small' },
          ...(this.kind === undefined ? {} : { [`of_${this.kind}`]: { type: 'string' } }),
        };
      },
    };
    start(component, { values: { mode: 'x' } });
    expect(await names()).toEqual(['mode', 'kind', 'of_small']);
    start(component, { values: { mode: 'x', kind: 'large' } });
    expect(await names()).toEqual(['mode', 'kind', 'of_large']);
  });

  test('gives dynamic props with options', async () => {
    start({
      props: { mode: { type: 'string', reloadProps: true } },
      additionalProps: () => ({ item: { type: 'string', options: () => ['dynamic'] } }),
    });
    expect(await valuesOf('item')).toEqual(['dynamic']);
  });

  test('gives apps with their methods, without effects and once in a process, unless it failed', async () => {
    type App = { greet(name: string): string; $auth: { token: string } };
    let calls = 0;
    const dynamic = { ...app, methods: { greet: (name: string) => `hello ${name}` } };
    const component = {
      props: { mode: { type: 'string', reloadProps: true } },
      additionalProps(this: Self) {
        calls += 1;
        if (calls > 1) this.$emit('never');
        if (calls === 2) throw new Error('not now');
        return { account: dynamic, again: { propDefinition: [{ propDefinitions: { dynamic } }, 'dynamic'] } };
      },
      run(this: { account: App; again: App; $emit(event: unknown): void }) {
        this.$emit([this.account.greet(this.account.$auth.token), this.again.greet('you')]);
      },
    };
    start(component, { values: { mode: 'x' } });
    const props = await program.props();
    expect(props.map(({ name, type }) => [name, type])).toEqual([
      ['mode', 'string'],
      ['account', 'app'],
      ['again', 'app'],
    ]);
    const instance = { props, values: { mode: 'x' }, accounts: { account: { token: 't' } } };
    start(component, instance);
    await expect(program.run(value(1), false)).rejects.toThrow('not now');
    for (let run = 0; run < 2; run += 1) await program.run(value(1), false);
    expect(payloads()).toEqual([
      ['hello t', 'hello you'],
      ['hello t', 'hello you'],
    ]);
    expect(calls).toBe(3);
  });

  test('is not needed, and may return nothing', async () => {
    start({ props: { mode: 'string' } });
    expect(await names()).toEqual(['mode']);
    start({ props: { mode: 'string' }, additionalProps() {} });
    expect(await names()).toEqual(['mode']);
    start({ props: {}, additionalProps: () => 'text' });
    await expect(program.props()).rejects.toThrow('additionalProps has to return an object');
  });
});

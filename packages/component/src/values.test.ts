import { describe, expect, test } from '@jest/globals';
import type { PropDescriptor } from '@wellspring/contract/definition';
import { Problem } from '@wellspring/core/problem';
import fc from 'fast-check';
import { MASK, presentValues, validateValues } from './values.ts';

const prop = (type: string, more: Partial<PropDescriptor> = {}): PropDescriptor => ({
  name: 'p',
  type,
  ...more,
});
const validate = (
  descriptor: PropDescriptor,
  given: Record<string, unknown>,
  previous?: Record<string, unknown>,
) => validateValues([descriptor], given, { minIntervalSeconds: 15, ...(previous ? { previous } : {}) });

function refusal(descriptor: PropDescriptor, value: unknown): Problem {
  try {
    validate(descriptor, { p: value });
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

describe('values are converted to the type of the prop', () => {
  test.each([
    ['string', '', ''],
    ['string', 5, '5'],
    ['string[]', ['a', 5], ['a', '5']],
    ['integer', '42', 42],
    ['integer', ' -7 ', -7],
    ['integer', 0, 0],
    ['boolean', 'true', true],
    ['boolean', 'false', false],
    ['boolean', false, false],
    ['object', '{"a":1}', { a: 1 }],
    ['object', {}, {}],
    ['any', [1, null], [1, null]],
    ['string[]', '["a"]', ['a']],
    ['integer[]', ['1', 2], [1, 2]],
    ['boolean[]', ['true', false], [true, false]],
    ['string[]', [], []],
    ['$.discord.channel[]', ['1'], ['1']],
  ])('%s: %p', (type, given, kept) => {
    expect(validate(prop(type), { p: given })).toEqual({ p: kept });
  });

  test.each([
    ['string', true],
    ['string', ['a']],
    ['integer', 1.5],
    ['integer', '1.5'],
    ['integer', '1e3'],
    ['integer', ''],
    ['integer', true],
    ['integer', 2 ** 53],
    ['boolean', 1],
    ['boolean', 'yes'],
    ['object', []],
    ['object', '[1]'],
    ['object', 'text'],
    ['string[]', 'a'],
    ['string[]', { 0: 'a' }],
    ['string[]', ['a', true]],
    ['$.interface.timer', 60],
    ['$.interface.timer', { intervalSeconds: 14 }],
    ['$.interface.timer', { cron: '* * * * * *' }],
    ['app', 'apn_0000000000'],
    ['app', { authProvisionId: 7 }],
    ['http_request', 'GET'],
  ])('%s: %p is a 400 that names the prop', (type, given) => {
    expect(refusal(prop(type), given)).toMatchObject({ status: 400, param: 'configured_props.p' });
  });

  test('min and max hold for integers, also in lists; options are left free', () => {
    const bounded = { min: 1, max: 3 };
    expect(validate(prop('integer[]', bounded), { p: [1, '3'] })).toEqual({ p: [1, 3] });
    expect(refusal(prop('integer', bounded), 0).param).toBe('configured_props.p');
    expect(refusal(prop('integer[]', bounded), [1, 4]).param).toBe('configured_props.p');
    expect(validate(prop('string', { options: ['a', 'b'] }), { p: 'c' })).toEqual({ p: 'c' });
  });

  test('a value has at most 64 KB', () => {
    expect(validate(prop('string'), { p: 'x'.repeat(64 * 1024) }).p).toHaveLength(64 * 1024);
    expect(refusal(prop('string'), 'x'.repeat(64 * 1024 + 1)).param).toBe('configured_props.p');
    expect(refusal(prop('string'), 'é'.repeat(33 * 1024)).param).toBe('configured_props.p');
  });

  test('a value with its label stays as it is', () => {
    const labelled = { __lv: { label: 'Lobby', value: 'r1' } };
    expect(validate(prop('string', { withLabel: true }), { p: labelled })).toEqual({ p: labelled });
    expect(refusal(prop('string'), labelled).param).toBe('configured_props.p');
  });
});

describe('absent values', () => {
  test('a required one is missed, an optional one left out', () => {
    expect(() => validate(prop('string'), {})).toThrow(
      expect.objectContaining({ status: 400, code: 'missing_parameter' }),
    );
    expect(() => validate(prop('string'), { p: null })).toThrow(Problem);
    expect(validate(prop('string', { optional: true }), {})).toEqual({});
  });

  test('the default is taken, converted if it fits the type, else as it is; also in an update', () => {
    expect(validate(prop('integer', { default: '5' }), {})).toEqual({ p: 5 });
    expect(validate(prop('boolean', { default: false, optional: true }), {})).toEqual({ p: false });
    const misfit = prop('integer', { default: 'five', max: 5 });
    expect(validate(misfit, {})).toEqual({ p: 'five' });
    expect(validate(misfit, {}, { p: 'five' })).toEqual({ p: 'five' });
    expect(() => validate(misfit, { p: 'six' })).toThrow(Problem);
    expect(validate(prop('string[]', { default: 'a' }), {})).toEqual({ p: 'a' });
  });

  test('a timer ticks as often as the operator allows', () => {
    const often = (intervalSeconds: number) =>
      validateValues([prop('$.interface.timer')], { p: { intervalSeconds } }, { minIntervalSeconds: 2 });
    expect(often(2)).toEqual({ p: { intervalSeconds: 2 } });
    expect(() => often(1)).toThrow('configured_props.p');
  });

  test('a timer ticks every hour, or as its default or static says', () => {
    const timer = '$.interface.timer';
    expect(validate(prop(timer), {})).toEqual({ p: { intervalSeconds: 3600 } });
    expect(validate(prop(timer, { default: { cron: '0 0 * * *' } }), {})).toEqual({
      p: { cron: '0 0 * * *', timezone: 'UTC' },
    });
    expect(validate(prop(timer, { static: { intervalSeconds: 60 } }), {})).toEqual({
      p: { intervalSeconds: 60 },
    });
    expect(
      validate(prop(timer, { static: { intervalSeconds: 60 } }), { p: { interval_seconds: '30' } }),
    ).toEqual({ p: { intervalSeconds: 30 } });
  });

  test('interfaces, the database and alerts take no value; unknown names are dropped', () => {
    const props = ['$.interface.http', '$.service.db', 'alert', '$.interface.apphook'].map((type, i) => ({
      name: `p${i}`,
      type,
    }));
    const given = { p0: 'x', p1: 'x', p2: 'x', p3: 'x', other: 1, constructor: 1 };
    expect(validateValues(props, given, { minIntervalSeconds: 15 })).toEqual({});
  });

  test('an app without account deploys; of an account, the id is kept', () => {
    expect(validate(prop('app', { app: 'rss' }), {})).toEqual({});
    const value = { authProvisionId: 'apn_0000000000', other: 1 };
    expect(validate(prop('app', { app: 'rss' }), { p: value })).toEqual({
      p: { authProvisionId: 'apn_0000000000' },
    });
  });

  test('values with labels are kept, one by one and in lists', () => {
    const one = { __lv: { label: 'L', value: 'v' } };
    for (const given of [one, [one], { __lv: [{ label: 'L', value: 'v' }] }])
      expect(validate(prop('string[]', { withLabel: true }), { p: given })).toEqual({ p: given });
  });
});

describe('a value that is missing', () => {
  const missing = (type: string, more: object = {}) => refusal(prop(type, more), undefined);

  test('is asked for by name; an unknown type is told', () => {
    expect(missing('string[]').message).toBe('The parameter configured_props.p is required.');
    expect(missing('$.discord.channel[]').message).toBe('The parameter configured_props.p is required.');
    expect(missing('strng')).toMatchObject({
      param: 'configured_props.p',
      message: 'The parameter configured_props.p is required. Its type "strng" is unknown.',
    });
    expect(missing('$.interface.smoke').message).toContain('Its type "$.interface.smoke" is unknown.');
  });

  test('is not needed by props that are not shown, data stores and directories', () => {
    for (const one of [
      prop('string', { hidden: true }),
      prop('string', { disabled: true }),
      prop('data_store'),
      prop('dir'),
    ])
      expect(validate(one, {})).toEqual({});
  });

  test('is not needed while the component is configured', () => {
    const options = { minIntervalSeconds: 15, partial: true };
    expect(validateValues([prop('string')], {}, options)).toEqual({});
    expect(() => validateValues([prop('integer')], { p: 'x' }, options)).toThrow('must be an integer');
  });
});

describe('an update', () => {
  test('merges by name, null unsets', () => {
    const optional = prop('string', { optional: true });
    expect(validate(optional, {}, { p: 'before' })).toEqual({ p: 'before' });
    expect(validate(optional, { p: 'after' }, { p: 'before' })).toEqual({ p: 'after' });
    expect(validate(optional, { p: null }, { p: 'before' })).toEqual({});
    expect(validate(prop('string', { default: 'd' }), { p: null }, { p: 'before' })).toEqual({ p: 'd' });
  });

  test('a secret that comes back masked keeps its value', () => {
    const secret = prop('string', { secret: true });
    expect(validate(secret, { p: MASK }, { p: 'hush' })).toEqual({ p: 'hush' });
    expect(validate(prop('string'), { p: MASK }, { p: 'open' })).toEqual({ p: MASK });
    expect(() => validate(secret, { p: MASK })).toThrow(Problem);
  });
});

test('any input gives values of the declared types or a 400 that names the prop', () => {
  const types = [
    'string',
    'integer',
    'boolean',
    'object',
    'any',
    'string[]',
    'integer[]',
    '$.interface.timer',
    'app',
    'http_request',
  ];
  fc.assert(
    fc.property(fc.constantFrom(...types), fc.jsonValue(), fc.boolean(), (type, value, optional) => {
      const descriptor = prop(type, { optional });
      try {
        const values = validate(descriptor, { p: value });
        expect(validate(descriptor, values)).toEqual(values);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        expect(error).toMatchObject({ status: 400, param: 'configured_props.p' });
      }
    }),
  );
});

test.each(['default', 'static'] as const)(
  'an account is never taken from the %s of the component',
  (field) => {
    const app = prop('app', { app: 'github', [field]: { authProvisionId: 'apn_0000000001' } });
    expect(validate(app, {})).toEqual({});
  },
);

test('presented values hide secrets and tell schedules and endpoints', () => {
  const props = [
    prop('string', { name: 'open' }),
    prop('string', { name: 'hidden', secret: true }),
    prop('string', { name: 'unset', secret: true }),
    prop('$.interface.timer', { name: 'every' }),
    prop('$.interface.timer', { name: 'daily' }),
    prop('$.interface.timer', { name: 'there' }),
    prop('$.interface.http', { name: 'http' }),
    prop('$.service.db', { name: 'db' }),
  ];
  const values = {
    open: 'shown',
    hidden: 'hush',
    every: { intervalSeconds: 60 },
    daily: { cron: '0 0 * * *', timezone: 'UTC' },
    there: { cron: '0 0 * * *', timezone: 'Europe/Berlin' },
  };
  const shown = presentValues(props, values, { http: 'http://host/e/key' });
  expect(shown).toEqual({
    open: 'shown',
    hidden: MASK,
    every: { cron: null, interval_seconds: 60 },
    daily: { cron: '0 0 * * *', interval_seconds: null },
    there: { cron: '0 0 * * *', interval_seconds: null, timezone: 'Europe/Berlin' },
    http: { endpoint_url: 'http://host/e/key' },
  });
  expect(JSON.stringify(shown)).not.toContain('hush');
});

import { describe, expect, test } from '@jest/globals';
import { Ajv } from 'ajv';
import fc from 'fast-check';
import { endpoints } from './endpoints/all.ts';
import { configureComponent } from './endpoints/components.ts';
import { createSource, listMySources, updateSource } from './endpoints/sources.ts';
import { createSubscription } from './endpoints/subscriptions.ts';
import { createWebhook, listWebhookDeliveries, recoverWebhook } from './endpoints/webhooks.ts';
import { validateInput } from './validate.ts';

const refusal = (call: () => unknown) => {
  try {
    return call();
  } catch (problem) {
    return problem;
  }
};
const refused = (param: string) => expect.objectContaining({ name: 'Problem', status: 400, param });

describe('a query', () => {
  test('is converted to the declared types', () => {
    expect(validateInput(listMySources.input, { limit: '7', after: '12' }, {})).toEqual({
      limit: 7,
      after: '12',
    });
    expect(validateInput(updateSource.input, { active: 'false', ignore_hook_errors: 'true' }, {})).toEqual({
      active: false,
      ignore_hook_errors: true,
    });
    expect(validateInput(recoverWebhook.input, { since: '1700000000' }, {})).toEqual({ since: '1700000000' });
  });

  test.each(['0', '-1', '1.5', '', ' ', '1e1', '0x10', 'ten', 'NaN', 'Infinity', '5;', 'null'])(
    'limit=%j is a 400',
    (limit) => {
      expect(refusal(() => validateInput(listMySources.input, { limit }, {}))).toEqual(refused('limit'));
    },
  );

  test('a parameter given twice is a 400', () => {
    expect(refusal(() => validateInput(listMySources.input, { limit: ['1', '2'] }, {}))).toEqual(
      refused('limit'),
    );
  });

  test('wins over the body', () => {
    const input = validateInput(
      createSubscription.input,
      { emitter_id: 'query' },
      { emitter_id: 'body', listener_id: 'l' },
    );
    expect(input).toEqual({ emitter_id: 'query', listener_id: 'l' });
  });
});

test('the error of a choice names the values', () => {
  const status = 'status must be one of pending, delivered, failed.';
  expect(refusal(() => validateInput(listWebhookDeliveries.input, { status: 'lost' }, {}))).toMatchObject({
    param: 'status',
    message: status,
  });
  expect(
    refusal(() => validateInput(createWebhook.input, {}, { url: 'u', payload_format: 'xml' })),
  ).toMatchObject({
    param: 'payload_format',
    message: 'payload_format must be one of raw, envelope.',
  });
});

describe('a body', () => {
  test.each([
    ['component_code', 5],
    ['component_code', {}],
    ['component_id', []],
    ['component_url', false],
    ['key', 1],
    ['name', 3],
    ['configured_props', 'x'],
    ['configured_props', []],
    ['configured_props', null],
    ['concurrency', '2'],
    ['concurrency', 0],
    ['concurrency', 11],
    ['org_id', 1],
  ])('%s = %j is a 400 that names it: values are not converted', (name, value) => {
    expect(refusal(() => validateInput(createSource.input, {}, { [name]: value }))).toEqual(refused(name));
  });

  test('a number that JavaScript does not have is a 400', () => {
    const body = JSON.parse('{"prop_name":"a","page":1e400}');
    expect(refusal(() => validateInput(configureComponent.input, {}, body))).toEqual(refused('page'));
  });

  test('a missing field is named', () => {
    expect(refusal(() => validateInput(createSubscription.input, {}, { listener_id: 'x' }))).toEqual(
      expect.objectContaining({ status: 400, code: 'missing_parameter', param: 'emitter_id' }),
    );
  });

  test('unknown fields are left out; the given body is not changed', () => {
    const props = { any: { thing: [1, null] } };
    const body = { configured_props: props, nonsense: 1, constructor: 2, ['__proto__']: { active: false } };
    expect(validateInput(createSource.input, { odd: 'x' }, body)).toEqual({ configured_props: props });
    expect(body).toHaveProperty('nonsense', 1);
  });
});

test('any input gives the declared fields or a 400 with a sentence', () => {
  const names = fc.constantFrom('name', 'configured_props', 'active', 'key', 'x', '__proto__', 'toString');
  const given = fc.dictionary(names, fc.jsonValue());
  const texts = fc.dictionary(names, fc.oneof(fc.string(), fc.array(fc.string())));
  fc.assert(
    fc.property(texts, given, (query, body) => {
      const result = refusal(() => validateInput(updateSource.input, query, body)) as object;
      if (result instanceof Error) {
        expect(result).toMatchObject({ name: 'Problem', status: 400, param: expect.any(String) });
        expect(result.message).toMatch(/^\S.*\.$/s);
      } else {
        expect(Object.keys(updateSource.input.properties)).toEqual(
          expect.arrayContaining(Object.keys(result)),
        );
      }
    }),
    { numRuns: 300 },
  );
});

const ajv = new Ajv({ strict: false });

// Schemas are not checked when they are compiled.
test.each(Object.values(endpoints))('the input of $operationId is a valid JSON Schema', ({ input }) => {
  expect(ajv.validateSchema(input)).toBe(true);
});

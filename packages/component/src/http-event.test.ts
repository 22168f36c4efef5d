import { describe, expect, test } from '@jest/globals';
import type { HttpRequestRecord } from '@wellspring/contract/messages';
import fc from 'fast-check';
import { callEvent, httpEvent } from './http-event.ts';

const request = (fields: Partial<HttpRequestRecord>): HttpRequestRecord => ({
  method: 'POST',
  path: '/a',
  query: '',
  headers: {},
  url: 'http://host/e/key/a',
  client_ip: '127.0.0.1',
  ...fields,
});
const withBody = (text: string, type?: string) =>
  httpEvent(request({ text, headers: type === undefined ? {} : { 'content-type': type } }));

describe('the event of an app hook', () => {
  const hook = (body: string, type = 'application/json') =>
    callEvent(request({ text: body, headers: { 'content-type': type }, body_only: true }));

  test.each([
    ['the body', '{"type":"message","payload":"{}"}', { type: 'message', payload: '{}' }],
    ['null without a body', '', null],
    ['a text', '"a"', 'a'],
    [
      'that of an envelope of Slack',
      '{"type":"event_callback","event":{"type":"message"}}',
      { type: 'message' },
    ],
    [
      'an envelope without event',
      '{"type":"event_callback","event":1}',
      { type: 'event_callback', event: 1 },
    ],
  ])('is %s', (_, body, event) => {
    expect(hook(body)).toEqual(event);
  });

  test.each([
    ['is the JSON of an interaction', '{"actions":[]}', { actions: [] }],
    ['is the form if that is no JSON', '{', { payload: '{' }],
  ])('%s', (_, payload, event) => {
    const form = new URLSearchParams({ payload }).toString();
    expect(hook(form, 'application/x-www-form-urlencoded')).toEqual(event);
  });
});

test('without a body, body is undefined and bodyRaw empty', () => {
  const event = httpEvent(request({ headers: { 'content-type': 'application/json' } }));
  expect(event).toEqual({
    method: 'POST',
    path: '/a',
    query: {},
    headers: { 'content-type': 'application/json' },
    bodyRaw: '',
    url: 'http://host/e/key/a',
    client_ip: '127.0.0.1',
  });
  expect('body' in event).toBe(false);
});

test('repeated names of the query become a list; names of Object.prototype are only names', () => {
  const { query } = httpEvent(request({ query: 'a=1&b=x%20y&a=2&__proto__=p&c' }));
  expect(Object.entries(query)).toEqual([
    ['a', ['1', '2']],
    ['b', 'x y'],
    ['__proto__', 'p'],
    ['c', ''],
  ]);
});

test('a hundred thousand names of a form take one pass', () => {
  const names = Array.from({ length: 100_000 }, (_, n) => String(n));
  const { body } = withBody(names.join('&'), 'application/x-www-form-urlencoded');
  expect(Object.keys(body as object)).toHaveLength(names.length);
});

describe('the body is parsed by its type', () => {
  test.each([
    ['{"a":[1]}', 'application/json; charset=utf-8', { a: [1] }],
    ['{"a":1}', 'Application/JSON', { a: 1 }],
    ['{"a":1}', 'application/vnd.api+json', { a: 1 }],
    ['{"a":', 'application/json', '{"a":'],
    ['\ufeff{"a":1}', 'application/json', { a: 1 }],
    ['a=1&a=2&b=%C3%BC', 'application/x-www-form-urlencoded', { a: ['1', '2'], b: 'ü' }],
    ['{"a":1}', 'text/plain', '{"a":1}'],
    ['{"a":1}', undefined, '{"a":1}'],
    ['<x/>', 'application/xml', '<x/>'],
  ])('%s as %s', (text, type, body) => {
    const event = withBody(text, type);
    expect(event.body).toEqual(body);
    expect(event.bodyRaw).toBe(text);
  });

  test('JSON that is nested too deeply to be serialized stays a text', () => {
    const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
    expect(withBody(deep(256), 'application/json').body).toEqual(JSON.parse(deep(256)));
    expect(withBody(deep(200_000), 'application/json').body).toBe(deep(200_000));
  });

  test('bytes that are no text stay bytes', () => {
    const bytes = Buffer.from([0xff, 0x00, 0xfe]);
    const event = httpEvent(
      request({ base64: bytes.toString('base64'), headers: { 'content-type': 'application/json' } }),
    );
    expect(event.bodyRaw).toEqual(bytes);
    expect(event.body).toEqual(bytes);
  });

  test('the fields of a multipart body are given as they were parsed', () => {
    expect(httpEvent(request({ text: '--x…', multipart: { a: '1' } })).body).toEqual({ a: '1' });
  });
});

test('every JSON text comes back as its value', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      expect(withBody(text, 'application/json').body).toEqual(JSON.parse(text));
    }),
  );
});

import { expect, test } from '@jest/globals';
import { endpointUrl, ownHostOf } from './endpoint-url.ts';
import { allowedHeaders } from './response-headers.ts';

const HOST = 'e1.hooks.example.com';

test.each([
  ['a=1', true],
  ['a=1; Path=/; Secure', true],
  ['a=1; Domain=e1.hooks.example.com', true],
  ['a=1; Domain=', true],
  ['a=domain=elsewhere', true],
  ['a=1; Domain=hooks.example.com', false],
  ['a=1; domain=.Example.com', false],
  ['a=1;\tDOMAIN =\texample.com ', false],
  ['a=1; Domain=e1.hooks.example.com; Domain=example.com', false],
  ['a=1; Domain=e2.hooks.example.com', false],
])('the cookie %j of a component on its own host is sent: %s', (cookie, isSent) => {
  const { sent, dropped } = allowedHeaders({ 'Set-Cookie': ['kept=1', cookie] }, HOST);
  expect(sent['set-cookie']).toEqual(isSent ? ['kept=1', cookie] : ['kept=1']);
  expect(dropped).toEqual(isSent ? [] : ['set-cookie']);
});

test('on the shared origin no cookie is sent, in any letter case and number', () => {
  const headers = { 'Set-Cookie': 'a=1', 'set-cookie': ['b=1'], 'SET-COOKIE2': 'c=1', 'x-custom': '1' };
  const { sent, dropped } = allowedHeaders(headers, undefined);
  expect({ ...sent }).toEqual({ 'x-custom': '1' });
  expect(dropped).toEqual(['set-cookie', 'set-cookie2']);
});

test.each(['Secure-Session-Registration', 'Sec-Session-Registration'])(
  'on the shared origin %s, which starts a session of the whole origin, is not sent',
  (name) => {
    const headers = { [name]: '(ES256);path="/start"' };
    expect(allowedHeaders(headers, undefined).dropped).toEqual([name.toLowerCase()]);
    expect(allowedHeaders(headers, HOST).dropped).toEqual([]);
  },
);

test('no instruction to nginx is sent, known or not', () => {
  const headers = { 'X-Accel-Redirect': '/etc', 'x-accel-later': '1', 'x-accept': '2' };
  const { sent, dropped } = allowedHeaders(headers, HOST);
  expect({ ...sent }).toEqual({ 'x-accept': '2' });
  expect(dropped).toEqual(['x-accel-later', 'x-accel-redirect']);
});

test('one name in two spellings is sent once', () => {
  const { sent } = allowedHeaders({ 'Content-Type': 'text/a', 'content-type': 'text/b' }, undefined);
  expect({ ...sent }).toEqual({ 'content-type': 'text/b' });
});

test('header names such as __proto__ are ordinary names', () => {
  const headers = JSON.parse('{"__proto__": "1", "constructor": "2"}');
  expect(Object.entries(allowedHeaders(headers, undefined).sent)).toEqual([
    ['__proto__', '1'],
    ['constructor', '2'],
  ]);
});

test('the host of a single endpoint is told from the shared origin', () => {
  const config = { publicUrl: 'https://api.example.com', endpointDomain: 'hooks.example.com:8443' };
  expect(ownHostOf(config, 'E1.Hooks.Example.com:8443')).toEqual({ host: HOST, key: 'e1' });
  expect(ownHostOf(config, 'e1.hooks.example.com.:8443')).toEqual({ host: HOST, key: 'e1' });
  expect(ownHostOf(config, 'a.e1.hooks.example.com')?.key).toBe('a.e1');
  expect(ownHostOf(config, 'hooks.example.com')).toBeUndefined();
  expect(ownHostOf(config, 'api.example.com')).toBeUndefined();
  expect(ownHostOf(config, undefined)).toBeUndefined();
  expect(ownHostOf({ endpointDomain: null }, 'e1.hooks.example.com')).toBeUndefined();
  expect(new URL(endpointUrl(config, 'e1')).hostname).toBe(HOST);
});

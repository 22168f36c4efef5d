import { describe, expect, test } from '@jest/globals';
import { checkUrl } from './url.ts';

describe('the address of a webhook', () => {
  test.each([
    'http://example.com',
    'https://example.com:8443/path',
    'http://example.com:1/',
    'https://example.com/a/b/c?x=1&y=%20%C3%A9#part',
    'http://intranet/hook',
    'http://localhost:9/hook',
    'https://93.184.216.34/hook',
    'https://[2606:2800:220:1:248:1893:25c8:1946]:8080/hook',
    'https://xn--bcher-kva.example/',
    'https://bücher.example/',
    'https://user:password@example.com/',
    'HTTPS://EXAMPLE.COM/Hook',
    `https://example.com/${'long/'.repeat(800)}`,
  ])('%s is kept as it was given', (url) => {
    expect(checkUrl(url)).toBe(url);
  });

  test.each([
    '',
    'example.com',
    '//example.com/hook',
    '/hook',
    '12345',
    'http',
    'http:',
    'http://',
    'http:example.com',
    'https:/example.com',
    'http:///path',
    'http:\\\\example.com',
    'http://\\example.com',
    'https://?q=1',
    'https://#part',
    'https://:8080/hook',
    'http://exa mple.com/',
    'http://example.com/a b',
    'http://example.com/\n',
    ' http://example.com/',
    'http://example.com\u0000/',
    'http://example.com:99999/',
    'http://[::1/',
    'http://%00/',
    'ftp://example.com/hook',
    'ws://example.com/hook',
    'javascript:alert(1)',
    'javascript://example.com/%0aalert(1)',
    'file:///etc/passwd',
    'data:text/plain,hello',
    '{"$gt":""}',
    `https://example.com/${'x'.repeat(5000)}`,
  ])('%j is refused, naming url', (url) => {
    expect(() => checkUrl(url)).toThrow(expect.objectContaining({ status: 400, param: 'url' }));
  });
});

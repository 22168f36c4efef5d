import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from '@jest/globals';
import { acceptContinue } from './accept-continue.ts';
import { createEgress } from './egress.ts';

test('a receiver may send 100 Continue first, more than once and among others', async () => {
  const egress = createEgress({ allowNetworks: ['127.0.0.0/8'] });
  const server = createServer((request, response) => {
    response.writeContinue();
    response.writeEarlyHints({ link: '</a>; rel=preload' });
    response.writeContinue();
    request.resume().on('end', () => response.end('HTTP/1.1 100 Continue'));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  // The second one is over the same connection.
  for (let n = 0; n < 2; n++) {
    const answer = await egress.agent.request({ origin, path: '/', method: 'POST', body: 'x' });
    expect([answer.statusCode, await answer.body.text()]).toEqual([200, 'HTTP/1.1 100 Continue']);
  }
  await egress.close();
  await new Promise((resolve) => server.close(resolve));
});

const HEADS = 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\na: HTTP/1.1 100\r\n\r\n';
const FINAL = 'HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n';

test.each([1, 5, 11, 12, 1000])('the status 100 is found in pieces of %i bytes', (size) => {
  const accept = acceptContinue();
  // The second answer of a connection.
  accept.begin();
  accept.read(Buffer.from(FINAL));
  accept.begin();
  const bytes = Buffer.from(`${HEADS}HTTP/1.1 100 \r\n\r\n${FINAL}`);
  for (let at = 0; at < bytes.length; at += size) accept.read(bytes.subarray(at, at + size));
  expect(String(bytes)).toBe(`${HEADS.replace('100', '102')}HTTP/1.1 102 \r\n\r\n${FINAL}`);
});

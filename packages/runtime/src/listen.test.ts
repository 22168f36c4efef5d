import { once } from 'node:events';
import { get, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { expect, test } from '@jest/globals';
import { listen } from './listen.ts';

test('a request that is not received in time is ended, an answer that takes longer is not', async () => {
  const waiting: ServerResponse[] = [];
  const where = { host: '127.0.0.1', port: 0, what: 'test listener', requestMs: 120 };
  const server = await listen(where, (req, res) => {
    if (req.method === 'GET') waiting.push(res);
    else req.resume();
  });
  const answer = new Promise<IncomingMessage>((resolve, reject) => {
    get({ port: server.port, agent: false }, resolve).on('error', reject);
  });
  const slow = connect(server.port, '127.0.0.1');
  slow.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf');
  const told: Buffer[] = [];
  slow.on('data', (chunk: Buffer) => told.push(chunk));
  await once(slow, 'close');
  expect(String(Buffer.concat(told))).toMatch(/^HTTP\/1.1 408 /);
  waiting[0]!.end('late');
  const res = await answer;
  expect(Buffer.concat(await res.toArray()).toString()).toBe('late');
  await server.drain();
});

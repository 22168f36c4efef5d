import { once } from 'node:events';
import { get, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { listen } from './listen.ts';

test('a request that is not received in time is ended, an answer that takes longer is not', async () => {
  const waiting: ServerResponse[] = [];
  const where = { host: '127.0.0.1', port: 0, what: 'test listener', requestMs: 2_400 };
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
  // A reset after the answer is no failure.
  await new Promise((resolve) => slow.on('error', () => {}).once('close', resolve));
  expect(String(Buffer.concat(told))).toMatch(/^HTTP\/1.1 408 /);
  waiting[0]!.end('late');
  const res = await answer;
  expect(Buffer.concat(await res.toArray()).toString()).toBe('late');
  await server.drain();
});

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** A server whose answers are given by the test. */
async function serve(stalledMs: number, takingMs?: (bytes: number) => number) {
  const asked: { url: string; res: ServerResponse }[] = [];
  const where = { host: '127.0.0.1', port: 0, what: 'test listener', stalledMs, takingMs };
  const server = await listen(where, (req, res) => void asked.push({ url: req.url!, res }));
  ends.push(() => server.destroy());
  return { server, asked };
}

test('a client that takes nothing of an answer is disconnected; one that waits for its answer is not', async () => {
  const { server, asked } = await serve(100);
  const waiting = new Promise<IncomingMessage>((resolve, reject) => {
    get({ port: server.port, path: '/waits', agent: false }, resolve).on('error', reject);
  });
  await eventually(() => asked.length === 1);
  const slow = connect(server.port, '127.0.0.1');
  ends.push(() => slow.destroy());
  slow.pause();
  slow.write('GET /slow HTTP/1.1\r\nhost: x\r\n\r\n');
  await eventually(() => asked.length === 2);
  const [first, second] = asked;
  // The time has passed once without anything to send.
  await once(second!.res, 'timeout');
  const closed = once(second!.res, 'close');
  second!.res.end(Buffer.alloc(64 * 1024 * 1024));
  await closed;
  expect(second!.res.writableFinished).toBe(false);
  first!.res.end('late');
  expect(Buffer.concat(await (await waiting).toArray()).toString()).toBe('late');
});

test('a client that takes an answer too slowly is disconnected; one that takes it, or a stream, is not', async () => {
  const bytes = 64 * 1024 * 1024;
  const { server, asked } = await serve(60_000, (waiting) => (waiting > bytes / 2 ? 500 : 60_000));
  const open = () => {
    const socket = connect(server.port, '127.0.0.1');
    ends.push(() => socket.destroy());
    socket.on('error', () => {}).pause();
    socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    return socket;
  };
  const stream = open();
  await eventually(() => asked.length === 1);
  asked[0]!.res.write('one');
  const slow = open();
  await eventually(() => asked.length === 2);
  const closed = once(asked[1]!.res, 'close');
  asked[1]!.res.end(Buffer.alloc(bytes));
  // It takes some bytes again and again.
  const taking = setInterval(() => slow.read(1), 10);
  ends.push(() => clearInterval(taking));
  await closed;
  expect(asked[1]!.res.writableFinished).toBe(false);
  const answered = fetch(`http://127.0.0.1:${server.port}`);
  await eventually(() => asked.length === 3);
  asked[2]!.res.end(Buffer.alloc(1024 * 1024));
  expect((await (await answered).arrayBuffer()).byteLength).toBe(1024 * 1024);
  let text = '';
  stream.on('data', (piece) => {
    text += String(piece);
  });
  stream.resume();
  asked[0]!.res.end('two');
  await eventually(() => text.includes('two'));
});

test('a pipelined request is served when the one before is answered', async () => {
  const { server, asked } = await serve(60_000);
  const client = connect(server.port, '127.0.0.1');
  ends.push(() => client.destroy());
  let text = '';
  client.on('data', (piece) => {
    text += String(piece);
  });
  client.write('GET /1 HTTP/1.1\r\nhost: x\r\n\r\nGET /2 HTTP/1.1\r\nhost: x\r\n\r\n');
  await eventually(() => asked.length > 0);
  expect(asked.map(({ url }) => url)).toEqual(['/1']);
  asked[0]!.res.end('one');
  await eventually(() => asked.length === 2);
  asked[1]!.res.end('two');
  await eventually(() => text.endsWith('two'));
});

test('a client with more than 16 requests behind one in progress is disconnected', async () => {
  const { server, asked } = await serve(60_000);
  const client = connect(server.port, '127.0.0.1');
  ends.push(() => client.destroy());
  client.on('error', () => {}).resume();
  let isClosed = false;
  client.once('close', () => {
    isClosed = true;
  });
  const request = 'GET /x HTTP/1.1\r\nhost: x\r\n\r\n';
  client.write(request.repeat(17));
  await eventually(() => asked.length === 1);
  // Answered requests do not count.
  for (let n = 0; n < 17; n++) {
    await eventually(() => asked.length === n + 1);
    asked[n]!.res.end();
  }
  client.write(request.repeat(17));
  await eventually(() => asked.length === 18);
  expect(isClosed).toBe(false);
  client.write(request);
  await eventually(() => isClosed);
  expect(asked).toHaveLength(18);
});

describe('the target of a request', () => {
  /** Method, target and further headers; gives the status, and host and path as the listener reads them. */
  async function ask(request: string, ...headers: string[]) {
    const where = { host: '127.0.0.1', port: 0, what: 'test listener' };
    const server = await listen(where, (req, res) => res.end(`${req.headers.host} ${req.url}`));
    ends.push(() => server.destroy());
    const socket = connect(server.port, '127.0.0.1');
    socket.end(
      [`${request} HTTP/1.1`, 'Host: own.example', ...headers, 'Connection: close', '', ''].join('\r\n'),
    );
    const [head = '', body = ''] = Buffer.concat(await socket.toArray())
      .toString()
      .split('\r\n\r\n');
    return [Number(head.split(' ')[1]), body];
  }

  test.each([
    ['GET /a?b=http://x', 'own.example /a?b=http://x'],
    ['GET //other.example/a', 'own.example //other.example/a'],
    ['OPTIONS *', 'own.example *'],
    ['GET http://other.example:81/a?b=1', 'other.example:81 /a?b=1'],
    ['GET HTTPS://other.example', 'other.example /'],
    ['GET http://other.example?b=1', 'other.example /?b=1'],
  ])('%s is read as %s', async (request, read) => {
    expect(await ask(request)).toEqual([200, read]);
  });

  test.each(['GET evil://other.example/', 'GET http://user@other.example/', 'GET http:///a', 'GET *'])(
    '%s is a 400',
    async (request) => {
      expect(await ask(request)).toEqual([400, '']);
    },
  );

  test('with two hosts is a 400', async () => {
    expect(await ask('GET /a', 'HOST: other.example')).toEqual([400, '']);
    expect(await ask('GET http://other.example/a', 'host: own.example')).toEqual([400, '']);
  });
});

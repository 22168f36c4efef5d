import { createServer as createHttp, type RequestListener } from 'node:http';
import { createServer as createHttps } from 'node:https';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createCertificate } from '@wellspring/testing/certificate';
import { tempDir } from '@wellspring/testing/temp-dir';
import { readRegistrySettings } from './settings.ts';
import { createUpstream } from './upstream.ts';

/** First byte of a TLS connection. */
const TLS = 0x16;
const TOKEN = 'token-of-the-operator';
const servers: Server[] = [];
const received: { encrypted: boolean; authorization: string | undefined }[] = [];
/** Of a registry that serves http and https at one port; `/to-http` and `/to-https` redirect to the other scheme. */
let host: string;

async function listening(server: Server): Promise<number> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

beforeAll(async () => {
  const answer =
    (encrypted: boolean): RequestListener =>
    ({ url = '', headers }, response) => {
      received.push({ encrypted, authorization: headers.authorization });
      const [, scheme] = /^\/to-(https?)$/.exec(url) ?? [];
      response.setHeader('connection', 'close');
      if (scheme) response.writeHead(302, { location: `${scheme}://${host}/package` });
      response.end('{}');
    };
  await using directory = await tempDir();
  const plain = await listening(createHttp(answer(false)));
  const secure = await listening(createHttps(createCertificate(directory.path), answer(true)));
  const both = createServer((socket) => {
    socket.once('data', (first: Buffer) => {
      const to = connect(first[0] === TLS ? secure : plain, '127.0.0.1');
      to.write(first);
      socket.pipe(to).pipe(socket);
      for (const [one, other] of [
        [socket, to],
        [to, socket],
      ] as const)
        one.on('error', () => {}).on('close', () => other.destroy());
    });
  });
  host = `127.0.0.1:${await listening(both)}`;
});
afterAll(() => {
  for (const server of servers) server.close();
});

async function get(url: string): Promise<string> {
  received.length = 0;
  const upstream = createUpstream(
    readRegistrySettings({
      npm_config_userconfig: '/dev/null',
      npm_config_globalconfig: '/dev/null',
      npm_config_strict_ssl: 'false',
      npm_config_fetch_retries: '0',
      [`npm_config_//${host}/:_authToken`]: TOKEN,
    }),
  );
  try {
    return await text(await upstream.get(url, { accept: '*/*' }));
  } finally {
    upstream.close();
  }
}

const authorization = `Bearer ${TOKEN}`;

test('the credentials of the registry stay in TLS when it redirects to its host without TLS', async () => {
  // Not the registry any more, so that its address has to be public.
  await expect(get(`https://${host}/to-http`)).rejects.toThrow(/127\.0\.0\.1, which is not a public address/);
  expect(received).toEqual([{ encrypted: true, authorization }]);
});

test('a registry may redirect within its host, and from http to https', async () => {
  expect(await get(`http://${host}/to-https`)).toBe('{}');
  expect(received).toEqual([
    { encrypted: false, authorization },
    { encrypted: true, authorization },
  ]);
  expect(await get(`http://${host}/to-http`)).toBe('{}');
  expect(received).toHaveLength(2);
});

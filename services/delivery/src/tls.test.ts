import { createServer } from 'node:http';
import { createSecureServer } from 'node:http2';
import { createServer as createHttps } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createEgress } from '@wellspring/http/egress';
import { createCertificate } from '@wellspring/testing/certificate';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createPost } from './post.ts';

const trusted = getCACertificates('default');
let good: ReturnType<typeof createCertificate>;
let unknown: typeof good;
beforeAll(async () => {
  await using directory = await tempDir();
  good = createCertificate(directory.path);
  unknown = createCertificate(directory.path);
  setDefaultCACertificates([...trusted, good.cert.toString()]);
});
afterAll(() => setDefaultCACertificates(trusted));

const OLD = { maxVersion: 'TLSv1.1', minVersion: 'TLSv1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;

test.each<[string, () => Server, string]>([
  ['has a self-signed certificate', () => createHttps(unknown), 'self-signed certificate'],
  ['does not speak TLS', () => createServer(), 'ERR_SSL_WRONG_VERSION_NUMBER: wrong version number'],
  [
    'knows old versions of TLS only',
    () => createHttps({ ...good, ...OLD }),
    'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: tlsv1 alert protocol version',
  ],
  [
    'knows HTTP/2 only',
    () => createSecureServer(good),
    'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL: tlsv1 alert no application protocol',
  ],
])('the error of an attempt to a receiver that %s is a short text', async (_, create, expected) => {
  const egress = createEgress({ allowNetworks: ['127.0.0.0/8'] });
  const server = create();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { error } = await createPost(egress, 60_000)({ owner: 'u_1', url, headers: {}, body: '1' });
  await egress.close();
  await new Promise((resolve) => server.close(resolve));
  expect(error).toBe(expected);
});

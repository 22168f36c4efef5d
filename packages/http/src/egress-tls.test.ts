import { createSecureServer, type SecureServerOptions } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { createCertificate } from '@wellspring/testing/certificate';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createEgress } from './egress.ts';

const trusted = getCACertificates('default');
let secrets: ReturnType<typeof createCertificate>;
beforeAll(async () => {
  await using directory = await tempDir();
  secrets = createCertificate(directory.path);
  setDefaultCACertificates([...trusted, secrets.cert.toString()]);
});
afterAll(() => setDefaultCACertificates(trusted));

const egress = createEgress({ allowNetworks: ['127.0.0.0/8'] });
afterAll(() => egress.close());

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** A receiver that knows HTTP/2. It answers the protocol of the request. */
async function receiver(options: SecureServerOptions): Promise<string> {
  const server = createSecureServer({ ...secrets, ...options }, ({ httpVersion, socket }, response) =>
    response.end(`${httpVersion} ${(socket as TLSSocket).alpnProtocol}`),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ends.push(() => new Promise((resolve) => void server.close(() => resolve())));
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const request = (origin: string) =>
  egress.agent.request({ origin, path: '/', method: 'POST', body: 'x', headers: { connection: 'close' } });

test('receivers that know HTTP/2 get HTTP/1.1', async () => {
  const { body } = await request(await receiver({ allowHTTP1: true }));
  expect(await body.text()).toBe('1.1 http/1.1');
});

test('a receiver that knows only HTTP/2 gets no request', async () => {
  await expect(request(await receiver({}))).rejects.toMatchObject({
    code: 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL',
  });
});

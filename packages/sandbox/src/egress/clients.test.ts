import { createServer as createHttp, type Server } from 'node:http';
import { createSecureServer } from 'node:http2';
import { createServer as createHttps } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createServer as createTls } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createCertificate } from '@wellspring/testing/certificate';
import { forSuite } from '@wellspring/testing/lifetimes';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { openSandbox, TIERS, values } from '../sandbox.fixture.ts';
import { echo, serve, type TestServer } from './relay.fixture.ts';

/** Servers on loopback, which these tests allow. */
interface Servers {
  http: string;
  https: string;
  http2: string;
  tls: number;
  echo: number;
  ca: string;
}

let directory: TempDir;
let raw: TestServer;
let servers: Servers;
const open: Pick<Server, 'close'>[] = [];
const sockets = new Set<{ destroy(): void }>();

async function listening(server: Pick<Server, 'listen' | 'address' | 'on' | 'close'>): Promise<number> {
  open.push(server);
  server.on('connection', (socket: { destroy(): void; on(name: string, hear: () => void): void }) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

beforeAll(async () => {
  directory = await tempDir();
  const secrets = createCertificate(directory.path);
  const answer: Parameters<typeof createHttp>[1] = (request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += String(chunk);
    });
    request.on('end', () => response.end(`${request.method} ${request.url} ${body}`));
  };
  raw = await serve(echo);
  servers = {
    http: `http://127.0.0.1:${await listening(createHttp({ keepAliveTimeout: 60_000 }, answer))}`,
    https: `https://127.0.0.1:${await listening(createHttps(secrets, answer))}`,
    http2: `https://127.0.0.1:${await listening(
      createSecureServer(secrets, (request, response) => response.end(`h2 ${request.url}`)) as never,
    )}`,
    tls: await listening(createTls(secrets, (socket) => socket.on('error', () => {}).pipe(socket)) as never),
    echo: raw.port,
    ca: String(secrets.cert),
  };
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  for (const server of open) server.close();
  await raw[Symbol.asyncDispose]();
  await directory.remove();
});

const IMPORTS = `import net from 'node:net'; import tls from 'node:tls'; import http from 'node:http';
  import https from 'node:https'; import http2 from 'node:http2'; import dns from 'node:dns'; import { once } from 'node:events';`;

describe.each(TIERS)('in tier %s', (tier) => {
  const sandbox = forSuite(() => openSandbox(tier, { codeAllowNetworks: ['127.0.0.0/8', '::1/128'] }));

  async function run(body: string, imports = ''): Promise<unknown> {
    const outcome = await sandbox.runModule(
      `${IMPORTS} ${imports}
       export default { name: 'x', async run(s) { const value = await (async () => { ${body} })(); this.$emit(value ?? null) } }`,
      { event: servers, process: undefined, timeoutMs: 20_000 } as never,
    );
    expect(outcome).toMatchObject({ ok: true });
    return values(outcome)[0];
  }

  test('http with and without keep-alive, and with a body written before it connects', async () => {
    expect(
      await run(`const send = (options) => new Promise((resolve, reject) => {
          const request = http.request(s.http + '/a', { method: 'POST', ...options }, (response) => {
            let text = ''; response.on('data', (c) => text += c).on('end', () => resolve(text));
          }).on('error', reject);
          request.end('body');
        });
        const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
        const said = [await send({ agent: false }), await send({ agent }), await send({ agent })];
        agent.destroy();
        return said;`),
    ).toEqual(['POST /a body', 'POST /a body', 'POST /a body']);
  });

  test('https and fetch accept only valid certificates', async () => {
    expect(
      await run(`const get = (options) => new Promise((resolve) => {
          https.get(s.https + '/b', options, (r) => { let t = ''; r.on('data', (c) => t += c).on('end', () => resolve(t)) })
            .on('error', ({ code }) => resolve(code));
        });
        const plain = await (await fetch(s.http + '/c', { method: 'POST', body: 'x' })).text();
        const refused = await fetch(s.https).catch(({ cause }) => cause.code);
        return [await get({ ca: s.ca }), await get({}), await get({ ca: s.ca, servername: 'other.example' }), plain, refused]`),
    ).toEqual([
      'GET /b ',
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'ERR_TLS_CERT_ALTNAME_INVALID',
      'POST /c x',
      'DEPTH_ZERO_SELF_SIGNED_CERT',
    ]);
  });

  test('https and fetch, also in threads, trust a given certificate authority, whose file is not in the environment', async () => {
    await using trusting = await openSandbox(tier, {
      codeAllowNetworks: ['127.0.0.0/8'],
      caFile: join(directory.path, 'cert.pem'),
    });
    const outcome = await trusting.run(
      `const get = \`fetch(url + '/d').then((r) => r.text(), ({ cause }) => cause.code)\`;
       const inThread = () => new Promise((resolve, reject) => new Worker(
         'const { workerData: url, parentPort } = require("node:worker_threads");' + get + '.then((text) => parentPort.postMessage([text, process.env.NODE_EXTRA_CA_CERTS]))',
         { eval: true, workerData: event.https }).on('message', resolve).on('error', reject));
       const { Worker } = await import('node:worker_threads');
       const url = event.https;
       return [await eval(get), process.env.NODE_EXTRA_CA_CERTS, ...(${tier !== 'none'} ? await inThread() : [])]`,
      { event: servers },
    );
    const expected = ['GET /d ', null];
    expect(values(outcome)).toEqual([tier === 'none' ? expected : [...expected, ...expected]]);
  });

  test('http2', async () => {
    expect(
      await run(`const session = http2.connect(s.http2, { ca: s.ca });
        const get = async (path) => { let t = ''; for await (const c of session.request({ ':path': path })) t += c; return t };
        const said = await Promise.all([get('/1'), get('/2')]);
        session.close();
        return said;`),
    ).toEqual(['h2 /1', 'h2 /2']);
  });

  test('raw sockets: half-close, pauses, addresses, events and callbacks as in Node', async () => {
    expect(
      await run(`const events = [];
        const socket = net.connect({ port: s.echo, host: 'localhost', allowHalfOpen: true }, () => events.push('callback'));
        socket.setNoDelay(true).setKeepAlive(true).setTimeout(20_000);
        for (const name of ['lookup', 'connect', 'ready', 'end', 'close']) socket.on(name, () => events.push(name));
        const closed = once(socket, 'close');
        events.push(socket.connecting, socket.pending, socket.write('early '));
        await once(socket, 'connect');
        const seen = [socket.remoteAddress === '127.0.0.1' || socket.remoteAddress, socket.remotePort === s.echo, socket.connecting];
        socket.end('late');
        let text = '';
        for await (const chunk of socket) text += chunk;
        await closed;
        return { text, seen, events };`),
    ).toEqual({
      text: 'early late',
      seen: [true, true, false],
      events: [true, true, false, 'lookup', 'callback', 'connect', 'ready', 'end', 'close'].map((one, at) =>
        at === 2 ? expect.any(Boolean) : one,
      ),
    });
  });

  test('a large body in both directions, unchanged', async () => {
    expect(
      await run(`const { createHash, randomBytes } = await import('node:crypto');
        const body = randomBytes(4_000_000);
        const socket = net.connect(s.echo, '127.0.0.1');
        const hash = createHash('sha256'); let n = 0;
        const done = new Promise((resolve, reject) => socket.on('data', (c) => { hash.update(c); n += c.length; if (n === body.length) resolve() }).on('error', reject));
        socket.write(body);
        await done; socket.destroy();
        return hash.digest('hex') === createHash('sha256').update(body).digest('hex');`),
    ).toBe(true);
  });

  test('tls on a new and on an existing connection', async () => {
    expect(
      await run(`const talk = async (socket) => {
          await once(socket, 'secureConnect');
          socket.write('hi'); const [chunk] = await once(socket, 'data');
          const said = [String(chunk), socket.authorized, socket.remotePort === s.tls, socket.getProtocol()];
          socket.destroy();
          return said;
        };
        const direct = await talk(tls.connect({ host: '127.0.0.1', port: s.tls, ca: s.ca }));
        const positional = await talk(tls.connect(s.tls, '127.0.0.1', { ca: s.ca }));
        const inner = net.connect(s.tls, '127.0.0.1');
        await once(inner, 'connect');
        return [direct, positional, await talk(tls.connect({ socket: inner, ca: s.ca, servername: 'localhost' }))];`),
    ).toEqual([0, 1, 2].map((at) => ['hi', true, at < 2 ? true : expect.anything(), 'TLSv1.3']));
  });

  test('timeouts, aborts, custom look-ups and errors', async () => {
    expect(
      await run(`const code = (socket) => new Promise((resolve) => socket.on('error', ({ code, name }) => resolve(code ?? name)));
        const refused = await code(net.connect(1, '127.0.0.1'));
        const unknown = await code(net.connect(80, 'does-not-exist.invalid'));
        const silent = net.connect(s.echo, '127.0.0.1');
        silent.setTimeout(50);
        await once(silent, 'timeout'); silent.destroy();
        const aborted = await fetch(s.http, { signal: AbortSignal.timeout(0) }).catch(({ name }) => name);
        const signal = AbortSignal.abort();
        const early = await code(net.connect({ port: s.echo, host: '127.0.0.1', signal }));
        let asked = '';
        const own = net.connect({ port: s.echo, host: 'anything.example', lookup: (host, options, done) => { asked = host; done(null, [{ address: '127.0.0.1', family: 4 }]) } });
        await once(own, 'connect'); own.destroy();
        const four = net.connect({ port: s.echo, host: 'localhost', family: 4 });
        await once(four, 'connect'); four.destroy();
        const range = (() => { try { net.connect(70_000, '127.0.0.1') } catch ({ code }) { return code } })();
        return [refused, unknown === 'ENOTFOUND' || unknown === 'EAI_AGAIN', aborted, early, asked, range];`),
    ).toEqual(['ECONNREFUSED', true, 'TimeoutError', 'ABORT_ERR', 'anything.example', 'ERR_SOCKET_BAD_PORT']);
  });

  test('look-ups of names', async () => {
    expect(
      await run(`const { promisify } = await import('node:util');
        const four = await dns.promises.lookup('localhost', { family: 4 });
        const viaCallback = await new Promise((resolve) => dns.lookup('localhost', 4, (...args) => resolve(args)));
        const promisified = await promisify(dns.lookup)('127.0.0.1');
        const all = await dns.promises.lookup('localhost', { all: true });
        const unknown = await dns.promises.lookup('does-not-exist.invalid').catch(({ code, hostname }) => [code === 'ENOTFOUND' || code === 'EAI_AGAIN', hostname]);
        return [four, viaCallback, promisified, all.length > 0, unknown, (await new dns.promises.Resolver().resolve4('localhost'))];`),
    ).toEqual([
      { address: '127.0.0.1', family: 4 },
      [null, '127.0.0.1', 4],
      { address: '127.0.0.1', family: 4 },
      true,
      [true, 'does-not-exist.invalid'],
      ['127.0.0.1'],
    ]);
  });

  test('a reset by the server is an error, not an end', async () => {
    await using server = await serve((socket) => {
      socket.once('data', () => socket.write('half', () => setImmediate(() => socket.resetAndDestroy())));
    });
    expect(
      await run(`const socket = net.connect(${server.port}, '127.0.0.1'); socket.write('go'); const events = [];
        await new Promise((resolve) => socket.on('end', () => events.push('end')).on('error', ({ code }) => events.push(code)).on('close', resolve).resume());
        return events`),
    ).toEqual(['ECONNRESET']);
  });

  test.each([
    ['axios', `import axios from 'axios@1';`, `(await axios.get(s.http + '/p')).data`],
    ['got', `import got from 'got@14';`, `await got(s.http + '/p').text()`],
    ['undici', `import { request } from 'undici@7';`, `await (await request(s.http + '/p')).body.text()`],
  ])('the package %s', async (_name, imports, expression) => {
    expect(await run(`return String(${expression})`, imports)).toBe('GET /p ');
  });

  (tier === 'none' ? test.skip : test)('worker threads', async () => {
    expect(
      await run(`const { Worker } = await import('node:worker_threads');
        const code = \`const { parentPort, workerData } = require('node:worker_threads'); const https = require('node:https');
          (async () => {
            const viaFetch = await (await fetch(workerData.http + '/w')).text();
            const viaHttps = await new Promise((resolve, reject) => https.get(workerData.https, { ca: workerData.ca }, (r) => r.on('end', () => resolve(r.statusCode)).resume()).on('error', reject));
            const refused = await fetch('http://10.0.0.1').catch(({ cause }) => cause.code);
            parentPort.postMessage([viaFetch, viaHttps, refused]);
          })()\`;
        const worker = new Worker(code, { eval: true, workerData: { ...s } });
        const [said] = await once(worker, 'message');
        return said`),
    ).toEqual(['GET /w ', 200, 'EACCES']);
  });
});

import type { IncomingMessage, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, expect, test } from '@jest/globals';
import { createByteBudget, createHold, UNLIMITED } from '@wellspring/core/byte-budget';
import { createEgress } from '@wellspring/http/egress';
import { eventually } from '@wellspring/testing/eventually';
import { freePort } from '@wellspring/testing/free-port';
import { startHttpServer } from '@wellspring/testing/http';
import { closeAfterEach } from '@wellspring/testing/lifetimes';
import { createFetchCode, rawAddress } from './fetch-code.ts';

type Answer = string | Buffer | ((req: IncomingMessage, res: ServerResponse) => void);

const closing = closeAfterEach();

async function serve(files: Record<string, Answer>) {
  const asked: string[] = [];
  const listener = (req: IncomingMessage, res: ServerResponse) => {
    asked.push(req.url!);
    const file = files[req.url!];
    if (file === undefined) res.writeHead(404).end('nothing here');
    else if (typeof file === 'function') file(req, res);
    else res.end(file);
  };
  const { url: origin } = closing(await startHttpServer(listener));
  return { origin, asked };
}

const egress = createEgress({ allowNetworks: ['127.0.0.0/8', '::1/128'] });
const closed = createEgress({ allowNetworks: [] });
afterAll(() => Promise.all([egress.close(), closed.close()]));
const fetchOf = createFetchCode(egress);
const fetchCode = (address: string, hold = UNLIMITED) => fetchOf(address, 'u_1', hold);
const refusal = (message: RegExp) => ({
  name: 'Problem',
  status: 400,
  param: 'component_url',
  message: expect.stringMatching(message),
});

test('a single file comes as it is', async () => {
  const { origin, asked } = await serve({ '/a.mjs?x=1': 'export default { name: "größe ✓" };' });
  expect(await fetchCode(`${origin}/a.mjs?x=1#L3`)).toEqual({
    url: `${origin}/a.mjs?x=1`,
    code: 'export default { name: "größe ✓" };',
  });
  expect(asked).toEqual(['/a.mjs?x=1']);
});

test('relative imports come along by their addresses, each fetched once, circles too', async () => {
  const files = {
    '/c/feed/new.mjs': 'import x from "../common/x.mjs"; import "./y.mjs"; import axios from "axios";',
    '/c/common/x.mjs': 'import "../feed/y.mjs"; export default 1;',
    '/c/feed/y.mjs': 'import "./new.mjs"; import "../common/x.mjs";',
  };
  const { origin, asked } = await serve(files);
  const { modules } = await fetchCode(`${origin}/c/feed/new.mjs`);
  expect(modules).toEqual({
    [`${origin}/c/common/x.mjs`]: files['/c/common/x.mjs'],
    [`${origin}/c/feed/y.mjs`]: files['/c/feed/y.mjs'],
    [`${origin}/c/feed/new.mjs`]: files['/c/feed/new.mjs'],
  });
  expect(asked.filter((path) => path !== '/c/feed/new.mjs').sort()).toEqual([
    '/c/common/x.mjs',
    '/c/feed/y.mjs',
  ]);
});

test('imports of a redirected component are relative to where it was found', async () => {
  const { origin } = await serve({
    '/latest': (_req, res) => res.writeHead(302, { location: '/v2/main.mjs' }).end(),
    '/v2/main.mjs': 'import "./words.mjs"',
    '/v2/words.mjs': 'export {}',
  });
  const { url, modules } = await fetchCode(`${origin}/latest`);
  expect([url, Object.keys(modules ?? {})]).toEqual([`${origin}/v2/main.mjs`, [`${origin}/v2/words.mjs`]]);
});

test('a missing extension is guessed, that of the importer first, and a directory has an index', async () => {
  const files = {
    '/c/new.ts': 'import app from "./a.app"; import common from "./common"; import { T } from "./types";',
    '/c/a.app.ts': 'import { words } from "./words.mjs"; import data from "./data.json"',
    '/c/common/index.mjs': '',
    '/c/words.mts': '',
    '/c/data.json': '["import \\"./nothing.mjs\\""]',
  };
  const { origin } = await serve(files);
  const { modules } = await fetchCode(`${origin}/c/new.ts`);
  expect(Object.keys(modules ?? {}).sort()).toEqual(
    ['/c/a.app.ts', '/c/common/index.mjs', '/c/data.json', '/c/words.mts'].map((path) => origin + path),
  );
});

test('a module that is not there is named', async () => {
  const { origin } = await serve({ '/a.mjs': 'import "./missing.mjs"' });
  await expect(fetchCode(`${origin}/a.mjs`)).rejects.toMatchObject(refusal(/missing\.mjs answered 404/));
});

test.each([
  ['', /not a URL/],
  ['not a url', /not a URL/],
  ['//example.com/x.mjs', /not a URL/],
  ['ftp://example.com/x.mjs', /http or https/],
  ['file:///etc/passwd', /http or https/],
  ['data:text/javascript,1', /http or https/],
  ['http://', /not a URL/],
  ['http://169.254.169.254/latest/meta-data', /cannot be fetched/],
])('%j is refused', async (address, message) => {
  await expect(fetchCode(address)).rejects.toMatchObject(refusal(message));
});

test('a URL without a listener is a 400 that names component_url', async () => {
  const address = `http://127.0.0.1:${await freePort()}/x.mjs`;
  await expect(fetchCode(address)).rejects.toMatchObject(refusal(/ECONNREFUSED/));
});

test('each redirect is checked, and so is each name that is looked up', async () => {
  const { origin } = await serve({
    '/away': (_req, res) => res.writeHead(302, { location: 'http://169.254.169.254/latest' }).end(),
    '/loop': (_req, res) => res.writeHead(302, { location: '/loop' }).end(),
    '/file': (_req, res) => res.writeHead(302, { location: 'file:///etc/passwd' }).end(),
  });
  await expect(fetchCode(`${origin}/away`)).rejects.toMatchObject(refusal(/not a public address/));
  await expect(fetchCode(`${origin}/loop`)).rejects.toMatchObject(refusal(/redirects too often/));
  await expect(fetchCode(`${origin}/file`)).rejects.toMatchObject(refusal(/redirects/));
  const named = origin.replace('127.0.0.1', 'localhost');
  await expect(createFetchCode(closed)(`${named}/away`, 'u_1', UNLIMITED)).rejects.toMatchObject(
    refusal(/its host is unknown, or in a network that is not allowed/),
  );
  await expect(createFetchCode(closed)(`${origin}/away`, 'u_1', UNLIMITED)).rejects.toMatchObject(
    refusal(/not a public address/),
  );
});

test('a body over the limit is refused, also when it is compressed', async () => {
  const endless = (_req: IncomingMessage, res: ServerResponse) => {
    const more = () => {
      while (res.writable && res.write(Buffer.alloc(65536, 'x')));
    };
    res.on('drain', more);
    more();
  };
  const { origin } = await serve({
    '/endless': endless,
    '/bomb': (_req, res) =>
      res.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(50_000_000, 'x'))),
  });
  await expect(fetchCode(`${origin}/endless`)).rejects.toMatchObject(refusal(/more than 6 MB/));
  await expect(fetchCode(`${origin}/bomb`)).rejects.toMatchObject(refusal(/more than 6 MB/));
});

test('an endless chain of modules is cut off', async () => {
  const { origin } = await serve(
    new Proxy<Record<string, Answer>>(
      {},
      { get: (_, path) => `import "./${Number(String(path).slice(1, -4)) + 1}.mjs"` },
    ),
  );
  await expect(fetchCode(`${origin}/0.mjs`)).rejects.toMatchObject(refusal(/more than 200 modules/));
});

test('what is fetched takes memory of its request, with its modules; without room it is a 503', async () => {
  const { origin } = await serve({
    '/a.mjs': 'import "./b.mjs";'.padEnd(100_000),
    '/b.mjs': Buffer.alloc(100_000, ' '),
  });
  const [budget, small] = [createByteBudget(1_000_000), createByteBudget(300_000)];
  const hold = createHold(budget, 'u_1');
  await fetchCode(`${origin}/a.mjs`, hold);
  expect(budget.used).toBeGreaterThanOrEqual(200_000);
  hold.release();
  const refused = { status: 503, code: 'unavailable' };
  await expect(fetchCode(`${origin}/a.mjs`, createHold(small, 'u_1'))).rejects.toMatchObject(refused);
});

test('bytes that are no text are refused', async () => {
  const { origin } = await serve({ '/x': Buffer.from([0xff, 0xfe, 0x00]) });
  await expect(fetchCode(`${origin}/x`)).rejects.toMatchObject(refusal(/UTF-8/));
});

test('GitHub pages give the raw file', () => {
  const raw = 'https://raw.githubusercontent.com/PipedreamHQ/pipedream/master/components/rss/new.mjs';
  expect(rawAddress('https://github.com/PipedreamHQ/pipedream/blob/master/components/rss/new.mjs#L7')).toBe(
    raw,
  );
  expect(rawAddress(raw)).toBe(raw);
  expect(rawAddress('https://github.com.example.org/a/b/blob/c/d.mjs')).toMatch(
    /^https:\/\/github\.com\.example/,
  );
});

test('one owner has at most four fetches at a time, and does not hold up another one', async () => {
  let open = 0;
  const answers: ServerResponse[] = [];
  const hold = (_req: IncomingMessage, res: ServerResponse) => {
    open += 1;
    answers.push(res);
  };
  const { origin } = await serve({ '/held': hold, '/free': 'x' });
  const held = Array.from({ length: 5 }, () => fetchOf(`${origin}/held`, 'u_slow', UNLIMITED));
  await eventually(() => open === 4);
  expect(await fetchOf(`${origin}/free`, 'u_other', UNLIMITED)).toMatchObject({ code: 'x' });
  expect(open).toBe(4);
  answers.shift()!.end('y');
  await eventually(() => open === 5);
  for (const answer of answers) answer.end('y');
  expect(await Promise.all(held)).toHaveLength(5);
});

test('a component that is refused ends its other requests: they count no longer for its owner', async () => {
  const [held, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const { origin } = await serve({
    '/a.mjs': 'import "./held.mjs"; import "./refused.mjs";',
    '/held.mjs': (_req, res) => {
      res.once('close', left.resolve);
      held.resolve();
    },
    '/refused.mjs': (_req, res) => void held.promise.then(() => res.writeHead(500).end()),
  });
  await expect(fetchCode(`${origin}/a.mjs`)).rejects.toMatchObject(refusal(/refused.mjs answered 500/));
  await left.promise;
  // Before the timeout of all requests.
}, 10_000);

test('a module with hundreds of thousands of imports is refused before any of them is fetched', async () => {
  const imports = Array.from({ length: 300_000 }, (_, n) => `import './${n.toString(36)}'`).join(';');
  const { origin, asked } = await serve({ '/main.mjs': 'import "./many.mjs"', '/many.mjs': imports });
  await expect(fetchCode(`${origin}/main.mjs`)).rejects.toMatchObject(refusal(/more than 1000 requests/));
  expect(asked).toEqual(['/main.mjs', '/many.mjs']);
});

test('addresses that would occupy the main thread are refused before they are fetched', async () => {
  const long = 'x'.repeat(1_000_000);
  const { origin, asked } = await serve({ '/main.mjs': `import "./${long}"` });
  await expect(fetchCode(`${origin}/main.mjs`)).rejects.toMatchObject(
    refusal(/^An import of .*\/main\.mjs has more than 1024 characters/),
  );
  await expect(fetchCode(`${origin}/${long}`)).rejects.toMatchObject(refusal(/more than 4096 characters/));
  expect(asked).toEqual(['/main.mjs']);
});

test.each([
  ['informational responses', '', 'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n', /too much besides the code/],
  ['line feeds', '', '\r\n'.repeat(4096), /too much besides the code/],
  [
    'bytes',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n',
    '1\r\nx\r\n'.repeat(4096),
    /more than 6 MB/,
  ],
])('an address that sends %s without end is refused before the timeout', async (_, first, more, message) => {
  const { origin } = await serve({
    '/a.mjs': ({ socket }) => {
      const write = () => {
        while (!socket.destroyed && socket.write(more));
      };
      socket.write(first);
      socket.on('drain', write);
      write();
    },
  });
  await expect(fetchCode(`${origin}/a.mjs`)).rejects.toMatchObject(refusal(message));
});

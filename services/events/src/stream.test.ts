import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { LIMITS } from '@wellspring/contract/limits';
import { eventIdOfSortKey, eventSortKey } from '@wellspring/core/event-id';
import { noMetrics } from '@wellspring/core/metrics';
import { createTokenBuckets } from '@wellspring/core/token-buckets';
import { events } from '@wellspring/store/collections/events';
import { sources } from '@wellspring/store/collections/sources';
import { apiKeys, members } from '@wellspring/store/collections/users';
import { eventually } from '@wellspring/testing/eventually';
import type { HttpServer } from '@wellspring/testing/http';
import { eventRow, sourceRow } from '@wellspring/testing/rows';
import { ALICE, BOB, ORG, serveApi, signed, useHarness, user } from '@wellspring/testing/service-harness';
import { createEventsService } from './service.ts';

const t = useHarness();
const CAROL = user('u_0000000003', ORG);
const SOURCE = 'dc_0000000001';
const BYTES = 200_000;
const KEYS = Array.from({ length: 100 }, (_, n) => eventSortKey({ ms: 1_700_000_000_000 + n, n: 0 }));
const BEFORE_ALL = '1-0';

let server: HttpServer;
let openStreams: () => number;
const opened: IncomingMessage[] = [];
beforeEach(async () => {
  const metrics: typeof noMetrics = {
    ...noMetrics,
    gauge(name, _help, read) {
      if (name === 'wellspring_streams') openStreams = read as () => number;
    },
  };
  server = await serveApi(createEventsService({ ...t, metrics, buckets: createTokenBuckets(t.clock) }));
  await t.store.collection(sources).insert(sourceRow({ id: SOURCE, owner_id: ORG }));
  for (const { user_id } of [ALICE, CAROL]) {
    await t.store.collection(members).insert({ id: `${ORG}/${user_id}`, org_id: ORG, user_id });
  }
  await t.store.collection(apiKeys).insert({
    ...{ id: ALICE.key_id, user_id: ALICE.user_id, hash: '', name: null },
    ...{ created_at: 0, last_used_at: null },
  });
});
afterEach(async () => {
  for (const res of opened.splice(0)) res.destroy();
  await server.close();
});

/** More events than a connection buffers. */
async function insertEvents(): Promise<void> {
  const payload = JSON.stringify('x'.repeat(BYTES));
  await t.store.collection(events).insertMany(KEYS.map((key) => eventRow(SOURCE, key, { payload })));
}

/** An answer that nobody reads yet. */
async function open(as = ALICE, lastEventId?: string): Promise<IncomingMessage> {
  const headers = { ...signed(as), ...(lastEventId !== undefined && { 'last-event-id': lastEventId }) };
  const asked = get(`${server.url}/v1/sources/${SOURCE}/sse`, { agent: false, headers });
  const [res] = (await once(asked, 'response')) as [IncomingMessage];
  res.on('error', () => {});
  opened.push(res);
  return res;
}

/** Ids of the whole frames, until there are `count` or the stream ends. */
async function readIds(res: IncomingMessage, count: number): Promise<string[]> {
  let text = '';
  const found = () => [...text.matchAll(/^id: (.*)\n.*\n\n/gm)].map(([, id]) => id!);
  try {
    for await (const piece of res) {
      text += String(piece).replaceAll('x', '');
      if (found().length >= count) break;
    }
  } catch {
    // It was cut off.
  }
  return found();
}

test('frames that a reader does not take count as its memory, at most some events of them', async () => {
  await insertEvents();
  const { streams } = t.memory;
  const slow = await open(ALICE, BEFORE_ALL);
  await eventually(() => streams.used > 0);
  expect(streams.used).toBeLessThan(3 * BYTES);
  slow.destroy();
  await eventually(() => streams.used === 0 && openStreams() === 0);
});

test('a slow reader is disconnected when the memory for streams is used up, and resumes without a gap', async () => {
  await insertEvents();
  const { streams } = t.memory;
  const release = streams.tryTake(streams.total)!;
  const slow = await open(ALICE, BEFORE_ALL);
  await eventually(() => openStreams() === 0);
  const first = await readIds(slow, KEYS.length);
  expect(first.length).toBeLessThan(KEYS.length);
  release();
  const resumed = await open(ALICE, first.at(-1) ?? BEFORE_ALL);
  const rest = await readIds(resumed, KEYS.length - first.length);
  expect([...first, ...rest]).toEqual(KEYS.map(eventIdOfSortKey));
  await eventually(() => openStreams() === 0 && streams.used === 0);
});

test('HEAD is answered as GET would be, and no stream is open while its connection is', async () => {
  const socket = connect(server.port, '127.0.0.1');
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk;
  });
  for (const as of [ALICE, BOB]) {
    const headers = Object.entries(signed(as)).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.write(`HEAD /v1/sources/${SOURCE}/sse HTTP/1.1\r\nhost: x\r\n${headers.join('')}\r\n`);
  }
  await eventually(() => text.split('\r\n\r\n').length === 3);
  expect(text.match(/^HTTP.*/gm)).toEqual(['HTTP/1.1 200 OK', 'HTTP/1.1 404 Not Found']);
  await eventually(() => openStreams() === 0);
  socket.destroy();
});

test('a user has at most 500 open streams, and another one when one of them ends', async () => {
  const streams = await Promise.all(Array.from({ length: LIMITS.streams }, () => open()));
  expect(new Set(streams.map(({ statusCode }) => statusCode))).toEqual(new Set([200]));
  const refused = await open();
  expect([refused.statusCode, refused.headers['retry-after']]).toEqual([429, '3']);
  expect(JSON.parse(String(Buffer.concat(await refused.toArray())))).toMatchObject({
    code: 'too_many_requests',
  });
  expect((await open(CAROL)).statusCode).toBe(200);
  streams[0]!.destroy();
  await eventually(async () => {
    const res = await open();
    if (res.statusCode === 200) return true;
    res.destroy();
    return false;
  });
});

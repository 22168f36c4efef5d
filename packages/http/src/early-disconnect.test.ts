import { once } from 'node:events';
import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import { expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { type Log, silentLog } from '@wellspring/core/log';
import { createMemory } from '@wellspring/core/memory';
import { startHttpServer } from '@wellspring/testing/http';
import { closeAfterEach } from '@wellspring/testing/lifetimes';
import { createRouter, route } from './bind.ts';
import { createProxy } from './proxy.ts';
import { readBody } from './read-body.ts';
import { getThing } from './things.fixture.ts';

/** Requests whose client leaves while the gateway authenticates them: the events of its departure are over. */

const closing = closeAfterEach();
const memory = createMemory(1);
const options = { log: silentLog, principalKeys: [], memory };

/** A request as its handler gets it after the client has left. */
async function abandoned(method: 'GET' | 'POST'): Promise<[IncomingMessage, ServerResponse]> {
  const arrived = Promise.withResolvers<[IncomingMessage, ServerResponse]>();
  const { url } = closing(await startHttpServer((...exchange) => arrived.resolve(exchange)));
  const asked = request(url, { method, agent: false, path: '/v1/things/dc_1' });
  asked.on('error', () => {}).setHeader('content-length', method === 'GET' ? 0 : 2);
  asked.flushHeaders();
  const [req, res] = await arrived.promise;
  const left = once(res, 'close');
  asked.destroy();
  await left;
  return [req, res];
}

test('a body is not waited for', async () => {
  const [req] = await abandoned('POST');
  await expect(readBody(req, 100)).rejects.toThrow('disconnected');
});

test('a handler is told at once', async () => {
  const told = Promise.withResolvers<boolean>();
  const endpoint = { ...getThing, authenticated: false };
  const handle = async ({ signal }: { signal: AbortSignal }) => {
    told.resolve(signal.aborted);
    return { id: 'dc_1', name: 'a thing', size: 3 };
  };
  createRouter([route(endpoint, handle)], options)(...(await abandoned('GET')));
  expect(await told.promise).toBe(true);
});

test('the log has no success for a response that was never sent', async () => {
  const line = Promise.withResolvers<unknown>();
  const log: Log = {
    ...silentLog,
    info: (fields, event) => event === 'http.request' && line.resolve(fields),
  };
  const endpoint = { ...getThing, authenticated: false };
  const handle = async () => ({ id: 'dc_1', name: 'a thing', size: 3 });
  createRouter([route(endpoint, handle)], { ...options, log })(...(await abandoned('GET')));
  expect(await line.promise).toMatchObject({ operation: 'getThing', status: 499 });
});

test('the proxy opens no stream of the service that nobody would end', async () => {
  let asked = 0;
  const service = closing(
    await startHttpServer((_req, res) => {
      asked += 1;
      res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    }),
  );
  const draining = new AbortController().signal;
  const proxy = closing(createProxy({ ...options, clock: systemClock, draining }));
  proxy.to([service.url])(...(await abandoned('GET')));
  // A later request on the same path.
  const through = closing(await startHttpServer(proxy.to([service.url])));
  await fetch(through.url);
  expect(asked).toBe(1);
});

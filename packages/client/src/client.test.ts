import type { RequestListener } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { endpoints } from '@wellspring/contract/endpoints/all';
import { silentLog } from '@wellspring/core/log';
import { createMemory } from '@wellspring/core/memory';
import { conflict, tooManyRequests } from '@wellspring/core/problem';
import { createRouter, type Route, route } from '@wellspring/http/bind';
import { PRINCIPAL_HEADER, signPrincipal } from '@wellspring/http/principal';
import { type HttpServer, startHttpServer } from '@wellspring/testing/http';
import { ApiError } from './api-error.ts';
import { type Client, createClient, createOperatorClient } from './client.ts';

const KEY = Buffer.alloc(32, 1);
const seen: { headers: Record<string, unknown>; params: unknown; input: unknown }[] = [];
let server: HttpServer;
let listener: RequestListener;
let url: string;
let client: Client;

/** The platform's own router over handlers that note what reached them. */
async function serve(routes: Route[]) {
  const router = createRouter(routes, { principalKeys: [KEY], log: silentLog, memory: createMemory(1) });
  const principal = signPrincipal({ kind: 'user', user_id: 'u_1', key_id: 'key_1', org_ids: [] }, KEY);
  listener = (req, res) => {
    if (req.headers.authorization === 'Bearer good') req.headers[PRINCIPAL_HEADER] = principal;
    router(req, res);
  };
}

beforeEach(async () => {
  seen.length = 0;
  server = await startHttpServer((req, res) => listener(req, res));
  url = server.url;
  client = createClient({ url, key: 'good' });
});
afterEach(() => server.close());

const subscription = {
  id: 'sub_1',
  emitter_id: 'dc_1',
  listener_id: 'wh_1',
  event_name: '',
  created_at: 1,
};

describe('an operation', () => {
  test('puts path parameters, query and body where the platform reads them', async () => {
    const note = async ({
      req,
      params,
      input,
    }: {
      req: { headers: object };
      params: object;
      input: object;
    }) => {
      seen.push({ headers: { ...req.headers }, params: { ...params }, input });
    };
    await serve([
      route(endpoints.updateWebhook, async (context) => {
        await note(context);
        throw conflict('source_busy', 'Seen.');
      }),
      route(endpoints.deleteSubscription, note),
      route(endpoints.listMySubscriptions, async () => [subscription]),
      route(endpoints.createSubscription, async (context) => {
        await note(context);
        return subscription;
      }),
    ]);
    await expect(
      client.updateWebhook({ id: 'wh/ä?', active: false, name: null, url: undefined }),
    ).rejects.toMatchObject({ code: 'source_busy' });
    expect(await client.deleteSubscription({ emitter_id: 'dc_1', listener_id: 'wh_1', event_name: '' })).toBe(
      undefined,
    );
    expect(
      await client.createSubscription(
        { emitter_id: 'dc_1', listener_id: 'wh_1' },
        { idempotencyKey: 'once' },
      ),
    ).toEqual(subscription);
    expect(await client.listMySubscriptions()).toEqual([subscription]);
    expect(seen).toMatchObject([
      { params: { id: 'wh/ä?' }, input: { active: false, name: null } },
      { input: { emitter_id: 'dc_1', listener_id: 'wh_1', event_name: '' } },
      { headers: { 'idempotency-key': 'once' }, input: { emitter_id: 'dc_1' } },
    ]);
  });

  test('gives a page with its page_info', async () => {
    await serve([route(endpoints.listMySources, async () => ({ data: [], total_count: 0 }))]);
    expect(await client.listMySources({ limit: 5 })).toEqual({
      page_info: { total_count: 0, count: 0, start_cursor: null, end_cursor: null },
      data: [],
    });
  });

  test('refuses to call without a path parameter', async () => {
    await expect(client.getSource({ id: '' })).rejects.toThrow('getSource needs id');
    await expect(client.getSource({} as never)).rejects.toThrow(TypeError);
  });
});

describe('an error', () => {
  const failure = (call: Promise<unknown>) =>
    call.then(
      () => undefined,
      (error: unknown) => error,
    );

  test('tells what the platform said', async () => {
    await serve([
      route(endpoints.listMySources, async () => {
        throw tooManyRequests(3);
      }),
    ]);
    expect(await failure(createClient({ url, key: 'bad' }).listMySources())).toMatchObject({
      name: 'ApiError',
      status: 401,
      code: 'unauthorized',
      requestId: expect.stringMatching(/^req_/),
    });
    expect(await failure(client.listMySources({ limit: 0 }))).toMatchObject({
      status: 400,
      code: 'invalid_parameter',
      param: 'limit',
      message: expect.stringContaining('limit'),
    });
    expect(await failure(client.listMySources())).toMatchObject({ status: 429, retryAfter: 3 });
  });

  test('of a proxy in between is an ApiError, too', async () => {
    listener = (_, res) => res.writeHead(502).end('<html>bad gateway</html>');
    const error = await failure(client.getMe());
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 502, code: 'unknown', message: 'The server answered 502.' });
  });
});

test('both clients together have every endpoint', () => {
  const names = [client, createOperatorClient({ url, key: 'x' })].flatMap((one) => Object.keys(one));
  expect(names.sort()).toEqual(Object.keys(endpoints).sort());
});

import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach } from '@jest/globals';
import type { Principal } from '@wellspring/contract/principal';
import type { Log } from '@wellspring/core/log';
import { createMemory } from '@wellspring/core/memory';
import { conflict } from '@wellspring/core/problem';
import { type HttpServer, type RequestOptions, send, startHttpServer } from '@wellspring/testing/http';
import { createRouter, route } from './bind.ts';
import { PRINCIPAL_HEADER, signPrincipal } from './principal.ts';
import {
  addThing,
  dropThing,
  failing,
  getMine,
  getThing,
  listThings,
  open,
  operate,
} from './things.fixture.ts';

export const key = randomBytes(32);
export const ALICE: Principal = { kind: 'user', user_id: 'u_alice', key_id: 'key_1', org_ids: ['o_1'] };
export const logged: { fields: Record<string, unknown>; event: string }[] = [];
const record = (fields: object, event: string) => void logged.push({ fields: { ...fields }, event });
const log: Log = { debug: record, info: record, warn: record, error: record };
export let seen: { input: Record<string, unknown>; principal: Principal; params: object } | undefined;

export const memory = createMemory(1);

const thing = (id: string) => ({ id, name: 'a thing', size: 3 });
const router = createRouter(
  [
    route(getThing, async (context) => {
      seen = context;
      return thing(context.params.id);
    }),
    route(getMine, async () => thing('mine')),
    route(listThings, async (context) => {
      seen = context;
      return { data: [thing('dc_2'), thing('dc_1')], total_count: 7 };
    }),
    route(addThing, async (context) => {
      seen = context;
      return thing('dc_new');
    }),
    route(dropThing, async () => {}),
    route(failing, async ({ params }) => {
      if (params.how === 'conflict') throw conflict('orgname_taken', 'It is taken.');
      throw new Error('database password is hunter2');
    }),
    route(open, async () => {}),
    route(operate, async () => {}),
  ],
  { principalKeys: [randomBytes(32), key], log, memory },
);

export let server: HttpServer;
beforeAll(async () => {
  server = await startHttpServer(router);
});
afterAll(() => server.close());
beforeEach(() => {
  seen = undefined;
  logged.length = 0;
});

export const call = (
  method: string,
  path: string,
  { headers = {}, body, principal = ALICE }: RequestOptions & { principal?: Principal | null } = {},
) =>
  send(server.port, method, path, {
    body,
    headers: { ...(principal && { [PRINCIPAL_HEADER]: signPrincipal(principal, key) }), ...headers },
  });

export const JSON_TYPE = { 'content-type': 'application/json' };
export const post = (
  body: string | Buffer,
  headers: Record<string, string> = JSON_TYPE,
  path = '/v1/things',
) => call('POST', path, { headers, body });

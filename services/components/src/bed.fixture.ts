import { createHash } from 'node:crypto';
import { CALLS, type PrepareCall, type ResolveCall } from '@wellspring/contract/calls';
import type { Principal } from '@wellspring/contract/principal';
import type { Hold } from '@wellspring/core/byte-budget';
import { systemClock } from '@wellspring/core/clock';
import { invalidComponent } from '@wellspring/core/problem';
import type { Config } from '@wellspring/runtime/config';
import { orgs, users } from '@wellspring/store/collections/users';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { orgRow, userRow } from '@wellspring/testing/rows';
import { ALICE, BOB, invoke, ORG, openPorts, runService } from '@wellspring/testing/service-harness';
import { createComponentsService } from './service.ts';

export interface Shown {
  id: string;
  code: string;
  code_hash: string;
  version: string;
  component_url: string | null;
}

export const OPERATOR: Principal = { kind: 'operator' };

export const refusal = (status: number, param?: string) => (param ? { status, param } : { status });
export const keyed = (key: string | null, version = '', name = 'Keyed') =>
  JSON.stringify({ name, key, version });

/** The service on real adapters, with the users ALICE and BOB and the organization ORG. What the runner compiles is the JSON text of a definition. */
export async function createBed() {
  const ports = openPorts();
  const { store, call, seal, memory } = ports;
  for (const { user_id } of [ALICE, BOB])
    await store.collection(users).insert(userRow({ id: user_id, username: user_id }));
  await store.collection(orgs).insert(orgRow(ORG));
  const config = { allowNetworks: ['127.0.0.0/8'] } as unknown as Config;
  const service = createComponentsService({ store, call, seal, memory, clock: systemClock, config });
  const stop = new AbortController();
  const evaluated: string[] = [];
  const prepared: PrepareCall['message'][] = [];
  call.serve(
    CALLS.prepare,
    async (source: PrepareCall['message']): Promise<PrepareCall['answer']> => {
      evaluated.push(source.code);
      prepared.push(source);
      await new Promise<void>((done) => void setImmediate(done));
      if (!source.code.startsWith('{')) throw invalidComponent('Unexpected token');
      const given = JSON.parse(source.code.split('\n')[0]!);
      const bundle_id = createHash('sha256').update(JSON.stringify(source)).digest('hex');
      return {
        bundle_id,
        bundle: { format: 'esm', code: source.code, packages: {}, lockfile: null },
        definition: {
          type: 'source',
          description: null,
          props: [],
          hooks: [],
          dedupe: null,
          has_run: true,
          additional_props: false,
          ...given,
        },
      };
    },
    stop.signal,
  );
  const stopService = runService(service);
  return {
    store,
    call,
    seal,
    memory,
    evaluated,
    prepared,
    /** The answer as a client gets it. */
    invoke: async <T = Shown>(
      operationId: string,
      params: Record<string, string>,
      input: Record<string, unknown>,
      principal: Principal = ALICE,
      hold?: Hold,
    ): Promise<T> => {
      const answer = await invoke<T>(service, operationId, params, input, principal, hold);
      return answer && JSON.parse(JSON.stringify(answer));
    },
    resolve: async (message: Partial<ResolveCall['message']>) =>
      (
        (await call.request(
          CALLS.resolve,
          { owner_id: 'u_0000000001', reader_ids: ['u_0000000001', 'o_0000000001'], ...message },
          { deadlineMs: 5000 },
        )) as ResolveCall['answer']
      ).component_id,
    async close() {
      stop.abort();
      await stopService();
      await ports.close();
    },
  };
}

/** A service for each test of the file. */
export function useBed() {
  const bed = forEachTest(createBed);
  return {
    bed,
    post: (component_code: string, principal = ALICE, more: Record<string, unknown> = {}) =>
      bed.invoke('createComponent', {}, { component_code, ...more }, principal),
    get: (id: string, input: Record<string, unknown> = {}, principal = ALICE) =>
      bed.invoke('getComponent', { id }, input, principal),
  };
}

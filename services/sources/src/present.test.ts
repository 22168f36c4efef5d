import { expect, test } from '@jest/globals';
import type { Definition } from '@wellspring/contract/definition';
import { createByteBudget, createHold } from '@wellspring/core/byte-budget';
import { eventSortKey } from '@wellspring/core/event-id';
import { events, logs } from '@wellspring/store/collections/events';
import { deployments, sources, timers } from '@wellspring/store/collections/sources';
import { workflowDeployments, workflows } from '@wellspring/store/collections/workflows';
import { eventRow, logRow, OWNER, sourceRow } from '@wellspring/testing/rows';
import { ALICE, callApi, invoke, useHarness } from '@wellspring/testing/service-harness';
import { createSourcesService } from './service.ts';

const t = useHarness();
const ID = 'dc_0000000001';
const NOW = 1_700_000_000_000;

test('a source shows when it ran, emitted and failed last, and when it runs next', async () => {
  await t.store.collection(sources).insert(sourceRow({ id: ID }));
  const service = createSourcesService(t as never);
  const read = async () => (await callApi(service, 'GET', `/sources/${ID}`)).json.data;
  expect(await read()).toMatchObject({
    ...{ next_run_at: null, last_run_at: null, last_event_at: null, last_error_at: null },
  });

  const keyOf = (n: number) => eventSortKey({ ms: NOW + n, n: 0 });
  const at = (n: number, fields: object = {}) =>
    eventRow(ID, keyOf(n), { indexed_at_ms: NOW + n, ...fields });
  await t.store
    .collection(events)
    .insertMany([at(1000), at(2000), at(9000, { stream: '$errors', name: '$errors' })]);
  await t.store.collection(logs).insert(logRow(ID, keyOf(3000), { indexed_at_ms: NOW + 3000 }));
  const timer = { source_id: ID, interval_seconds: 60, cron: null, timezone: null, lease_until: null };
  await t.store.collection(timers).insertMany([
    { ...timer, id: `${ID}/a`, prop: 'a', due_at: NOW + 60_000 },
    { ...timer, id: `${ID}/b`, prop: 'b', due_at: NOW + 30_000 },
  ]);
  expect(await read()).toMatchObject({
    ...{ next_run_at: NOW / 1000 + 30, last_run_at: NOW / 1000 + 3 },
    ...{ last_event_at: NOW / 1000 + 2, last_error_at: NOW / 1000 + 9 },
  });
});

/** A service whose store notes how many deployments are read at a time. */
function counted() {
  const seen = { reading: 0, most: 0 };
  const collection: typeof t.store.collection = (definition) => {
    const rows = t.store.collection(definition);
    if (![deployments, workflowDeployments].includes(definition as never)) return rows;
    const get = async (id: string) => {
      seen.most = Math.max(seen.most, ++seen.reading);
      return rows.get(id).finally(() => {
        seen.reading -= 1;
      });
    };
    return { ...rows, get };
  };
  return { seen, service: createSourcesService({ ...t, store: { ...t.store, collection } } as never) };
}
const LARGE = 'x'.repeat(1000);
const numbers = [1, 2, 3];
type Listed = { data: { id: string }[]; total_count: number };

test('a list of sources reads their values one by one, as far as there is memory', async () => {
  const definition = { props: [{ name: 'text', type: 'string' }] } as unknown as Definition;
  for (const n of numbers) {
    const [id, deployment_id] = [`dc_000000000${n}`, `d_000000000${n}`];
    await t.store.collection(sources).insert(sourceRow({ id, deployment_id, name_slug: `s-${n}` }));
    const row = { id: deployment_id, source_id: id, component_id: 'sc_1', bundle_id: 'b', created_at: 0 };
    await t.store.collection(deployments).insert({ ...row, definition, configured_props: { text: LARGE } });
  }
  const { seen, service } = counted();
  const list = async (total: number) => {
    const hold = createHold(createByteBudget(total));
    const { data } = await invoke<Listed>(service, 'listMySources', {}, {}, ALICE, hold);
    return data.map(({ id }) => id);
  };
  expect(await list(10_000)).toEqual(['dc_0000000003', 'dc_0000000002', 'dc_0000000001']);
  expect(await list(2500)).toEqual(['dc_0000000003', 'dc_0000000002']);
  expect(seen.most).toBe(1);
});

test('a list of workflows reads their definitions one by one, as far as there is memory', async () => {
  for (const n of numbers) {
    const [id, deployment_id] = [`p_000000000${n}`, `d_000000000${n}`];
    const workflow = { id, owner_id: OWNER, name: 'Large', source_id: ID, deployment_id };
    const times = { created_at: 0, updated_at: 0 };
    await t.store
      .collection(workflows)
      .insert({ ...workflow, ...times, made_source: false, status: 'live', transition: null });
    const row = { id: deployment_id, workflow_id: id, name: 'Large', steps: [], created_at: 0 };
    await t.store
      .collection(workflowDeployments)
      .insert({ ...row, definition: JSON.stringify({ text: LARGE }) });
  }
  const { seen, service } = counted();
  const list = async (total: number) => {
    const hold = createHold(createByteBudget(total));
    const operator = { kind: 'operator' } as const;
    const { data } = await invoke<Listed>(service, 'operatorListWorkflows', {}, {}, operator, hold);
    return data.map(({ id }) => id);
  };
  expect(await list(10_000)).toHaveLength(3);
  expect(await list(2500)).toEqual(['p_0000000003', 'p_0000000002']);
  expect(seen.most).toBe(1);
});

import { expect, test } from '@jest/globals';
import type { Definition } from '@wellspring/contract/definition';
import { deployments, timers } from '@wellspring/store/collections/sources';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { sourceRow } from '@wellspring/testing/rows';
import { openPorts } from '@wellspring/testing/service-harness';
import { createInterfaces } from './interfaces.ts';

const t = forEachTest(openPorts);

test('the timers of a source start at one moment', async () => {
  const [id, source_id, component_id] = ['d_0000000001', 'dc_0000000001', 'sc_0000000001'];
  const props = ['fast', 'slow'].map((name) => ({ name, type: '$.interface.timer' }));
  const configured_props = { fast: { intervalSeconds: 15 }, slow: { intervalSeconds: 30 } };
  await t.store.collection(deployments).insert({
    ...{ id, source_id, component_id, bundle_id: 'b', created_at: 0, configured_props },
    definition: { props } as Partial<Definition> as Definition,
  });
  // Each look at the clock takes a millisecond.
  let now = 1_700_000_000_000;
  const clock = { now: () => now++, sleep: async () => {} };
  await createInterfaces({ ...t, clock }).sync(sourceRow({ id: source_id, deployment_id: id }));
  const rows = await t.store.collection(timers).list({ where: { source_id } });
  const starts = rows.map(({ due_at, interval_seconds }) => due_at! - interval_seconds! * 1000);
  expect(starts).toHaveLength(2);
  expect(new Set(starts).size).toBe(1);
});

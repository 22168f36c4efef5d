import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { PoisonJob, type Queue } from '@wellspring/queue/port';
import { outbox } from '@wellspring/store/collections/outbox';
import { type DeliveryRow, deliveries } from '@wellspring/store/collections/webhooks';
import { eventually } from '@wellspring/testing/eventually';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { deliveryRow } from '@wellspring/testing/rows';
import { useHarness } from '@wellspring/testing/service-harness';
import { installationMetrics } from './installation-metrics.ts';
import { createMetrics, type Exposition } from './metrics.ts';
import { measuredQueue } from './queue-metrics.ts';

/** The values of a metric by their labels, as printed. */
async function shown({ read }: Exposition, name: string): Promise<Record<string, number>> {
  const lines = (await read()).split('\n').filter((line) => /^\w+/.exec(line)?.[0] === name);
  return Object.fromEntries(
    lines.map((line) => {
      const [, labels = '', value] = /^\w+(?:\{(.*)\})? (.*)$/.exec(line)!;
      return [labels, Number(value)];
    }),
  );
}

describe('metrics', () => {
  test('a gauge has a series for each of its labels, read for each scrape', async () => {
    const exposition = createMetrics();
    let depth = 1;
    exposition.metrics.gauge('wellspring_depth', 'Help', () => depth, { queue: 'runs' });
    exposition.metrics.gauge('wellspring_depth', 'Help', async () => 7, { queue: 'emitted' });
    exposition.metrics.gauge('wellspring_plain', 'Help', () => depth);
    expect(await shown(exposition, 'wellspring_depth')).toEqual({
      'queue="runs"': 1,
      'queue="emitted"': 7,
    });
    depth = 2;
    expect((await shown(exposition, 'wellspring_depth'))['queue="runs"']).toBe(2);
    expect(await shown(exposition, 'wellspring_plain')).toEqual({ '': 2 });
  });

  test('the longest turn of the event loop since the last reading is shown', async () => {
    const exposition = createMetrics();
    const longest = async () => (await shown(exposition, 'wellspring_event_loop_turn_max_seconds'))['']!;
    await nextTurn();
    for (const end = performance.now() + 50; performance.now() < end; );
    await nextTurn();
    await nextTurn();
    expect(await longest()).toBeGreaterThanOrEqual(0.049);
    // Of prom-client, with a timer that wakes an idle process.
    expect(await exposition.read()).not.toContain('nodejs_eventloop_lag');
  });

  test('a metric that cannot be read does not prevent the others', async () => {
    const exposition = createMetrics();
    const fails = () => Promise.reject(new Error('down'));
    exposition.metrics.gauge('wellspring_depth', 'Help', fails, { queue: 'runs' });
    exposition.metrics.gauge('wellspring_depth', 'Help', () => 7, { queue: 'emitted' });
    expect(await shown(exposition, 'wellspring_depth')).toEqual({
      'queue="runs"': Number.NaN,
      'queue="emitted"': 7,
    });
  });
});

describe('what waits in the installation', () => {
  const t = useHarness(createFakeClock);
  let queue: Queue;
  let exposition: Exposition;
  const value = async (name: string) => (await shown(exposition, name))[''];

  beforeEach(() => {
    exposition = createMetrics();
    const deps = { ...t, metrics: exposition.metrics };
    queue = measuredQueue(t.queue, deps);
    installationMetrics({ ...deps, queue });
  });

  test('shows jobs that wait, how long they waited, and those that were given up', async () => {
    expect(await shown(exposition, 'wellspring_queue_depth')).toEqual({
      'queue="runs"': 0,
      'queue="emitted"': 0,
    });
    await queue.publishMany('runs', [
      { key: 'a', payload: '1' },
      { key: 'b', payload: '2' },
    ]);
    expect((await shown(exposition, 'wellspring_queue_depth'))['queue="runs"']).toBe(2);
    expect(await value('wellspring_dead_letters')).toBe(0);

    await t.clock.advance(3_000);
    const stop = new AbortController();
    const consumed = queue.consume(
      'runs',
      async ([job]) => {
        if (job.key === 'b') throw new PoisonJob(job.id, 'no');
      },
      { signal: stop.signal },
    );
    await eventually(async () => (await value('wellspring_dead_letters')) === 1);
    stop.abort();
    await consumed;
    expect(await shown(exposition, 'wellspring_queue_wait_seconds_count')).toEqual({ 'queue="runs"': 2 });
    expect(await shown(exposition, 'wellspring_queue_wait_seconds_sum')).toEqual({ 'queue="runs"': 6 });
    expect(await shown(exposition, 'wellspring_queue_failures_total')).toEqual({ 'queue="runs"': 1 });
  });

  test('shows how long a committed run waits to be published', async () => {
    expect(await value('wellspring_outbox_oldest_seconds')).toBe(0);
    const rows = t.store.collection(outbox);
    for (const [id, age] of Object.entries({ run_young: 1_000, run_old: 42_000 })) {
      await rows.insert({ id, emitter_id: 'dc_1', created_at_ms: t.clock.now() - age, message: '{}' });
    }
    expect(await value('wellspring_outbox_oldest_seconds')).toBe(42);
  });

  test('shows deliveries that are due, paused ones included, not those that are done or held', async () => {
    const rows = t.store.collection(deliveries);
    const add = (id: string, fields: Partial<DeliveryRow>) => rows.insert(deliveryRow({ ...fields, id }));
    await add('dlv_done', { status: 'delivered' });
    await add('dlv_held', { due_at: t.clock.now() + 60_000 });
    expect(await value('wellspring_deliveries_overdue_seconds')).toBe(0);
    expect(await value('wellspring_deliveries_due')).toBe(0);
    await add('dlv_due', { due_at: t.clock.now() - 1_000 });
    await add('dlv_overdue', { due_at: t.clock.now() - 90_000 });
    expect(await value('wellspring_deliveries_overdue_seconds')).toBe(90);
    expect(await value('wellspring_deliveries_due')).toBe(2);
  });
});

import { expect, test } from '@jest/globals';
import type { Trigger } from '@wellspring/contract/messages';
import { systemClock } from '@wellspring/core/clock';
import { newRunId } from '@wellspring/core/ids';
import { Unavailable } from '@wellspring/core/unavailable';
import { events } from '@wellspring/store/collections/events';
import { users } from '@wellspring/store/collections/users';
import type { Collection, CollectionDefinition, Row } from '@wellspring/store/port';
import { numbers } from '@wellspring/testing/numbers';
import { ECHO, usePlatform } from './platform.fixture.ts';

const t = usePlatform();

/** Counts the executions. @param failing the number of one that fails */
function countExecutions(failing?: number): () => number {
  let count = 0;
  t.faults.execute = () => {
    count += 1;
    if (count === failing) throw new Error('no process can be started');
  };
  return () => count;
}

/** The first call of a method of this collection fails. */
function failOnce({ name }: CollectionDefinition<never>, method: 'count' | 'get'): void {
  const { collection } = t.store;
  let isAway = true;
  t.store.collection = <T extends Row>(definition: CollectionDefinition<T>): Collection<T> => {
    const rows = collection(definition);
    if (definition.name !== name) return rows;
    const call = rows[method] as (...args: unknown[]) => Promise<never>;
    const failing = async (...args: unknown[]) => {
      if (!isAway) return call(...args);
      isAway = false;
      throw new Unavailable('no primary');
    };
    return { ...rows, [method]: failing };
  };
}

test('runs that execute while a message cannot be published execute once, and messages keep their order', async () => {
  const id = await t.deploy(`export default { name: 'Slow', async run(event) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    this.$emit(event);
  } };`);
  const executions = countExecutions();
  let failures = 1;
  t.faults.publish = (queue) => {
    if (queue === 'emitted' && failures-- > 0) throw new Unavailable('no leader');
  };
  await t.runToEnd(id, numbers(40));
  expect(executions()).toBe(40);
  expect(await t.events(id)).toEqual(numbers(40));
  expect(t.publishedPayloads()).toEqual(numbers(40));
});

test.each([
  ['cannot start', undefined],
  ['fails to execute', 2],
])('an executed run waits for its commit although a later one %s', async (_, failing) => {
  const id = await t.deploy(ECHO);
  const executions = countExecutions(failing);
  if (failing === undefined) failOnce(users as never, 'get');
  let commits = 0;
  t.faults.commit = () => {
    if (commits++ === 0) throw new Unavailable('no primary');
    return undefined;
  };
  const now = systemClock.now();
  const triggers: Trigger[] = [
    { kind: 'manual', payload: '"first"' },
    // It starts when the first one has executed; the quota of its owner is read then.
    { kind: 'timer', prop: 'timer', due_at: now, interval_seconds: 60 },
  ];
  const jobs = triggers.map((trigger) => ({
    ...{ v: 1, type: 'run', run_id: newRunId(), source_id: id },
    ...{ trigger, hop: 0, trace_id: '', accepted_at: now },
  }));
  await t.queue.publishMany(
    'runs',
    jobs.map((job) => ({ key: id, payload: JSON.stringify(job) })),
  );
  await t.quiet();
  expect(executions()).toBe(failing === undefined ? 2 : 3);
  expect(await t.events(id)).toMatchObject(['first', { interval_seconds: 60 }]);
});

test('a run with delayed emits that has executed waits for the store instead of executing again', async () => {
  const id = await t.deploy(`export default { name: 'Delaying', run(event) {
    this.$emit(event, { delivery_ts: Date.now() + 3_600_000 });
  } };`);
  const executions = countExecutions();
  failOnce(events as never, 'count');
  await t.runToEnd(id, ['later']);
  expect(executions()).toBe(1);
  expect(await t.store.collection(events).list({ where: { partition: `${id}/$in` } })).toHaveLength(1);
});

test('messages that could not be published keep the order of their commits when the clock is set back meanwhile', async () => {
  const id = await t.deploy(`export default {
    name: 'Counting',
    props: { db: '$.service.db' },
    hooks: { deploy() { this.count(); } },
    methods: { count() { const n = (this.db.get('n') ?? 0) + 1; this.db.set('n', n); this.$emit(n); } },
    run() { this.count(); },
  };`);
  let isAway = true;
  t.faults.publish = (queue) => {
    if (queue === 'emitted' && isAway) throw new Unavailable('no leader');
  };
  for (const _ of numbers(3)) {
    await t.hook(id, 'deploy');
    t.ahead -= 60_000;
  }
  isAway = false;
  await t.runToEnd(id, ['next']);
  expect(t.publishedPayloads()).toEqual([1, 2, 3, 4]);
});

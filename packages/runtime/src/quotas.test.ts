import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { RecordJob } from '@wellspring/contract/messages';
import { sources } from '@wellspring/store/collections/sources';
import { type UserRow, usage, usageDay, users } from '@wellspring/store/collections/users';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { OWNER, sourceRow, userRow } from '@wellspring/testing/rows';
import { openPorts, type Ports } from '@wellspring/testing/service-harness';
import { createQuotas, type Quotas } from './quotas.ts';

const DAY_MS = 86_400_000;
const SOURCE = sourceRow({ id: 'dc_0000000001' });
const NOON = Date.UTC(2026, 0, 15, 12);

let clock: ReturnType<typeof createFakeClock>;
let ports: Ports;
let quotas: Quotas;
let records: RecordJob[];
let stop: AbortController;
let consuming: Promise<void>;
beforeEach(async () => {
  clock = createFakeClock(NOON);
  ports = openPorts();
  quotas = createQuotas({ ...ports, clock });
  records = [];
  stop = new AbortController();
  await ports.store.collection(sources).insert(SOURCE);
  consuming = ports.queue.consume(
    'runs',
    async (jobs) => {
      for (const { payload } of jobs) records.push(JSON.parse(payload));
    },
    { signal: stop.signal },
  );
});
afterEach(async () => {
  stop.abort();
  await consuming;
  await ports.close();
});

async function account(quota: Partial<UserRow>, used: { invocations: number; compute_ms: number }) {
  const { store } = ports;
  await store.collection(users).insert(userRow(quota));
  const day = usageDay(NOON);
  await store.collection(usage).insert({ id: `${OWNER}/${day}`, day, ...used });
}

test.each([
  ['invocations', { daily_invocations_quota: 2 }, /quota of 2 invocations/],
  ['compute time', { daily_compute_time_quota: 500 }, /quota of 500 ms of compute time/],
])('%s at the quota are refused until midnight', async (_, quota, reason) => {
  await account(quota, { invocations: 2, compute_ms: 500 });
  await expect(quotas.check(SOURCE, 'HTTP')).rejects.toMatchObject({
    status: 429,
    code: 'quota_exceeded',
    message: expect.stringMatching(reason),
    headers: { 'retry-after': '43200' },
  });
  await clock.advance(DAY_MS / 2);
  await quotas.check(SOURCE, 'HTTP');
});

test.each([
  ['below the quota', { daily_invocations_quota: 3, daily_compute_time_quota: 501 }],
  ['without a quota', {}],
])('an account %s is not refused', async (_, quota) => {
  await account(quota, { invocations: 2, compute_ms: 500 });
  await quotas.check(SOURCE, 'HTTP');
});

test('organizations and unknown accounts have no quota', async () => {
  await quotas.check({ ...SOURCE, owner_id: 'o_0000000001' }, 'HTTP');
  await quotas.check(SOURCE, 'HTTP');
});

test('stops are one record a day on $errors, with any number of processes', async () => {
  await account({ daily_invocations_quota: 0 }, { invocations: 0, compute_ms: 0 });
  const other = createQuotas({ ...ports, clock });
  for (const one of [quotas, other, quotas]) {
    await expect(one.check(SOURCE, 'HTTP')).rejects.toMatchObject({ status: 429 });
  }
  await clock.advance(DAY_MS);
  await expect(other.check(SOURCE, 'MANUAL')).rejects.toMatchObject({ status: 429 });
  await ports.queue.publish('runs', { key: SOURCE.id, payload: '"last"' });
  while (records.length < 3) await new Promise(setImmediate);
  expect(records.slice(0, 2).map(({ channel, source_id }) => [channel, source_id])).toEqual([
    ['$errors', SOURCE.id],
    ['$errors', SOURCE.id],
  ]);
  expect(records[0]!.run_id).not.toBe(records[1]!.run_id);
  expect(JSON.parse(records[0]!.payload)).toMatchObject({
    original_context: { source_id: SOURCE.id, owner_id: OWNER, source_type: 'HTTP' },
    error: { code: 'QuotaExceeded', msg: expect.stringMatching(/renewed at 00:00 UTC/) },
  });
});

test('a changed quota applies within a second', async () => {
  await account({ daily_invocations_quota: 0 }, { invocations: 0, compute_ms: 0 });
  await expect(quotas.check(SOURCE, 'HTTP')).rejects.toMatchObject({ status: 429 });
  await ports.store.collection(users).patch(OWNER, { daily_invocations_quota: null });
  await clock.advance(1000);
  await quotas.check(SOURCE, 'HTTP');
});

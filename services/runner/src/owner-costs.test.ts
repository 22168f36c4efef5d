import { beforeEach, describe, expect, test } from '@jest/globals';
import type { Result } from '@wellspring/sandbox/port';
import { costOf, createOwnerCosts, type OwnerCosts } from './owner-costs.ts';

const OK: Result = { ok: true, durationMs: 1, cpuMs: 1 };
const KILLED: Result = {
  ok: false,
  reason: 'protocol',
  error: { name: 'ProtocolError', message: '', stack: '' },
  durationMs: 1,
  cpuMs: 1,
  endedProcesses: 1,
};
const SMALL = { events: 1, bytes: 400, result: OK };

describe('the costs of an owner', () => {
  let time: number;
  let slept: number[];
  let costs: OwnerCosts;
  /** Another owner has runs meanwhile. */
  let hasOthers: boolean;
  beforeEach(() => {
    time = 1000;
    slept = [];
    const sleep = async (ms: number) => {
      slept.push(ms);
      time += ms;
      if (hasOthers) costs.charge('u_other', SMALL);
    };
    costs = createOwnerCosts({ sleep }, () => time);
    hasOthers = true;
    costs.charge('u_other', SMALL);
  });

  test('delay an owner without others less', async () => {
    const cost = { events: 10_000, bytes: 0, result: OK };
    const waitOf = async (ownerId: string) => {
      costs.charge(ownerId, cost);
      slept = [];
      await costs.settled(ownerId);
      return slept.reduce((sum, ms) => sum + ms, 0);
    };
    const beside = await waitOf('u_bulk');
    hasOthers = false;
    time += 60_000;
    expect(await waitOf('u_bulk')).toBeLessThan(beside / 2);
  });

  test('do not delay an owner of many small runs', async () => {
    for (let n = 0; n < 5000; n += 1) {
      costs.charge('u_busy', SMALL);
      time += 1;
      await costs.settled('u_busy');
    }
    expect(slept).toEqual([]);
    expect(costs.isCostly('u_busy')).toBe(false);
  });

  test.each([
    ['ten thousand events', { events: 10_000, bytes: 10_000, result: OK }],
    ['events of many megabytes', { events: 3, bytes: 16 * 1024 * 1024, result: OK }],
    ['code of megabytes', { bytes: 5_600_000 }],
  ])('delay its next run after %s, and not those of others', async (_name, run) => {
    costs.charge('u_attacker', run);
    expect(costs.isCostly('u_attacker')).toBe(true);
    await costs.settled('u_victim');
    expect(slept).toEqual([]);
    await costs.settled('u_attacker');
    expect(slept.length).toBeGreaterThan(0);
  });

  test('are higher for ten thousand events of one run than of a hundred runs', async () => {
    costs.charge('u_bulk', { events: 10_000, bytes: 10_000, result: OK });
    for (let n = 0; n < 100; n += 1) costs.charge('u_small', { events: 100, bytes: 100, result: OK });
    await costs.settled('u_small');
    const small = slept.splice(0).reduce((sum, ms) => sum + ms, 0);
    await costs.settled('u_bulk');
    expect(slept.reduce((sum, ms) => sum + ms, 0)).toBeGreaterThan(small);
  });

  test.each([
    ['of a failed run', KILLED],
    ['of a run that succeeded', { ...OK, endedProcesses: 1 }],
  ])('include the replacement of the process %s', async (_name, result) => {
    for (let n = 0; n < 2; n += 1) costs.charge('u_attacker', { result });
    await costs.settled('u_attacker');
    expect(slept.length).toBeGreaterThan(0);
    for (let n = 0; n < 2; n += 1)
      costs.charge('u_failing', { ...SMALL, result: { ...KILLED, reason: 'thrown', endedProcesses: 0 } });
    slept = [];
    await costs.settled('u_failing');
    expect(slept).toEqual([]);
  });

  test('count all that a run leaves', () => {
    const text = 'x'.repeat(1000);
    const failure = { name: 'Error', message: text, stack: text };
    const nothing = { outcome: { emits: [], errors: [], logs: [] }, result: OK, sets: [] };
    expect(costOf(nothing)).toEqual({ events: 0, bytes: 0, result: OK });
    const failed = { ...nothing, outcome: { ...nothing.outcome, errors: [failure, failure] } };
    expect(costOf(failed)).toEqual({ events: 2, bytes: 4000, result: OK });
    const removed = { ...nothing, sets: [{ key: 'k', json: undefined, revision: 1 }] };
    expect(costOf(removed).bytes).toBeGreaterThan(100);
    expect(costOf(nothing, 1000).bytes).toBe(1000);
  });

  test('of many runs that end at once are not evaded', async () => {
    for (let n = 0; n < 100; n += 1) costs.charge('u_attacker', { result: KILLED });
    await costs.settled('u_attacker');
    expect(slept.reduce((sum, ms) => sum + ms, 0)).toBeGreaterThan(20_000);
  });

  test('that were paid in advance and not used are given back', async () => {
    costs.pay('u_owner', 5_000);
    expect(costs.isSettled('u_owner')).toBe(false);
    expect(costs.isSettled('u_owner', 5_000)).toBe(true);
    costs.pay('u_owner', -5_000);
    expect(costs.isSettled('u_owner')).toBe(true);
    await costs.settled('u_owner');
    expect(slept).toEqual([]);
  });

  test('delay no run of a process that stops', async () => {
    costs.pay('u_owner', 5_000);
    await costs.settled('u_owner', { signal: AbortSignal.abort() });
    expect(slept).toEqual([]);
  });

  test('delay an owner by thirty seconds at most', async () => {
    for (let n = 0; n < 1000; n += 1) costs.charge('u_attacker', { events: 10_000, bytes: 0, result: OK });
    await costs.settled('u_attacker');
    expect(slept.reduce((sum, ms) => sum + ms, 0)).toBeLessThanOrEqual(30_000);
  });
});

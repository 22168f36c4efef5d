import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { BURN, codeProcesses } from './processes.fixture.ts';
import { ACTIVE_MS, createProcessorShares, type SharedProcess, TICK_MS } from './processor-shares.ts';
import { openSandbox, TIERS, values } from './sandbox.fixture.ts';

/** Processes that share two processors equally, and the time of a test. */
function simulate() {
  let time = 0;
  let tick: (() => void) | undefined;
  const shares = createProcessorShares({
    processors: 2,
    now: () => time,
    every(_ms, work) {
      tick = work;
      return () => {
        tick = undefined;
      };
    },
  });
  const all: (SharedProcess & { usedMs: number; isHeld: boolean; wants: number })[] = [];
  return {
    shares,
    /** @param wants share of a processor */
    add(owner: string, wants: number) {
      const process = {
        owner,
        wants,
        usedMs: 0,
        isHeld: false,
        cpuMs: () => process.usedMs,
        hold() {
          process.isHeld = true;
          return true;
        },
        letGo() {
          process.isHeld = false;
        },
      };
      all.push(process);
      shares.add(process);
      return process;
    },
    run(ticks: number) {
      for (let n = 0; n < ticks; n++) {
        time += TICK_MS;
        const running = all.filter(({ isHeld }) => !isHeld);
        const wanted = running.reduce((sum, { wants }) => sum + wants, 0);
        for (const process of running) process.usedMs += process.wants * TICK_MS * Math.min(1, 2 / wanted);
        tick?.();
      }
    },
  };
}

const used = (processes: { usedMs: number }[]) => processes.reduce((sum, { usedMs }) => sum + usedMs, 0);

test('an owner gets half of the processors while another one has calls, each of its processes the same', () => {
  const { add, run } = simulate();
  const victim = add('victim', 0.1);
  const attackers = Array.from({ length: 8 }, () => add('attacker', 1));
  run(400);
  expect(used(attackers) / (400 * TICK_MS)).toBeLessThan(1.1);
  expect(used(attackers) / (400 * TICK_MS)).toBeGreaterThan(0.9);
  for (const { usedMs } of attackers) expect(usedMs).toBeGreaterThan(0.8 * (used(attackers) / 8));
  expect(victim.usedMs).toBeGreaterThan(0.95 * 400 * TICK_MS * 0.1);
});

test('an owner alone is not limited', () => {
  const { add, run } = simulate();
  const processes = Array.from({ length: 8 }, () => add('only', 1));
  run(100);
  expect(used(processes)).toBeCloseTo(2 * 100 * TICK_MS);
});

test('an owner is alone again some time after the last call of the other', () => {
  const { shares, add, run } = simulate();
  const other = add('other', 0);
  const processes = Array.from({ length: 8 }, () => add('busy', 1));
  run(100);
  expect(processes.some(({ isHeld }) => isHeld)).toBe(true);
  shares.remove(other);
  run(ACTIVE_MS / TICK_MS + 1);
  expect(processes.some(({ isHeld }) => isHeld)).toBe(false);
});

test('processes that wait are not held', () => {
  const { add, run } = simulate();
  add('victim', 0.1);
  const waiting = add('attacker', 0.03);
  const busy = Array.from({ length: 4 }, () => add('attacker', 1));
  run(100);
  expect(waiting.usedMs).toBeGreaterThan(0.9 * 100 * TICK_MS * 0.03);
  expect(used(busy)).toBeLessThan(1.2 * 100 * TICK_MS);
});

test('many processes that each use little are limited together', () => {
  const { add, run } = simulate();
  add('victim', 0.1);
  const processes = Array.from({ length: 128 }, () => add('attacker', 0.03));
  run(400);
  expect(used(processes)).toBeLessThan(1.2 * 400 * TICK_MS);
});

test('an owner that uses less is not limited any more', () => {
  const { add, run } = simulate();
  add('victim', 0.1);
  const processes = Array.from({ length: 8 }, () => add('attacker', 1));
  run(100);
  for (const process of processes) process.wants = 0.05;
  run(50);
  expect(processes.some(({ isHeld }) => isHeld)).toBe(false);
});

test('a process that has no call any more is let go', () => {
  const { shares, add, run } = simulate();
  add('victim', 0.1);
  const processes = Array.from({ length: 8 }, () => add('attacker', 1));
  run(100);
  const held = processes.filter(({ isHeld }) => isHeld);
  expect(held.length).toBe(7);
  for (const process of held) shares.remove(process);
  expect(held.some(({ isHeld }) => isHeld)).toBe(false);
});

const MAIN_THREAD = ['in its main thread', 'burn(500); return true;'];
const WORKER_THREAD = [
  'in a worker thread',
  `const { Worker } = await import('node:worker_threads');
   const worker = new Worker(${JSON.stringify(`${BURN} burn(500);`)}, { eval: true });
   return await new Promise((resolve) => worker.on('exit', () => resolve(true)));`,
];

describe.each(TIERS)('in tier %s', (tier) => {
  // Tier none refuses worker threads.
  test.each(tier === 'none' ? [MAIN_THREAD] : [MAIN_THREAD, WORKER_THREAD])(
    'calls of an owner that uses more than its share %s run in turn, and all of them end',
    async (_, body) => {
      // 0.3 processors for each of several owners, and no other processes that are stopped.
      const freezeAfterMs = Number.POSITIVE_INFINITY;
      await using sandbox = await openSandbox(tier, { processors: 0.6, pool: 0, freezeAfterMs });
      const other = new AbortController();
      const wait = (event: object) =>
        sandbox.run(
          'if (!event.wait) return true; await new Promise((resolve) => setTimeout(resolve, 60_000));',
          {
            process: 'waiting/1',
            owner: { id: 'u_waiting', allowNetworks: [] },
            event,
            signal: other.signal,
            timeoutMs: 60_000,
          },
        );
      const spin = (event: object) =>
        Array.from({ length: 4 }, (_, n) =>
          sandbox.run(`${BURN} if (!event.burn) return true; ${body}`, {
            process: `spin${n}/1`,
            owner: { id: 'u_spin', allowNetworks: [] },
            event,
            timeoutMs: 60_000,
          }),
        );
      // Their processes start before, so that all calls run at the same time.
      for (const outcome of await Promise.all([wait({}), ...spin({})]))
        expect(values(outcome)).toEqual([true]);
      const waiting = wait({ wait: true });
      const runs = spin({ burn: true });
      await eventually(() => {
        const stopped = codeProcesses().filter(({ state }) => state === 'T');
        expect(stopped.length).toBeGreaterThanOrEqual(3);
      });
      for (const outcome of await Promise.all(runs)) expect(values(outcome)).toEqual([true]);
      other.abort();
      expect(await waiting).toMatchObject({ ok: false, reason: 'aborted' });
    },
  );
});

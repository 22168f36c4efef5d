import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  bytesOf,
  commitSets,
  type DbSet,
  type LiveState,
  liveState,
  replaceDb,
  setDb,
} from './live-state.ts';

const open = () => liveState('dc_1', undefined, 0);

function set(live: LiveState, key: string, json: string | undefined): DbSet[] {
  const done = setDb(live, key, json);
  return typeof done === 'object' ? [done] : [];
}

function commit(live: LiveState, sets: DbSet[]): void {
  live.row = { ...live.row, db: commitSets(live, sets) };
}

test('the removal of a key that does not exist is no change', () => {
  const live = open();
  const { dbRevision } = live;
  expect(setDb(live, 'a', undefined)).toBeUndefined();
  expect(live.dbRevision).toBe(dbRevision);
});

test('removed keys use a bounded amount of memory, even if they are long', () => {
  const live = open();
  for (let run = 0; run < 100; run += 1) {
    const keys = Array.from({ length: 500 }, (_, n) => `${run}/${n}/`.padEnd(1000, 'x'));
    commit(
      live,
      keys.flatMap((key) => [...set(live, key, '1'), ...set(live, key, undefined)]),
    );
  }
  expect(live.row.db).toEqual({});
  expect(live.committedSets.size).toBeLessThan(2000);
});

test('the size of a state follows its map, its removals, its channels and its known runs', () => {
  const live = open();
  const empty = bytesOf(live);
  const sets = Array.from({ length: 500 }, (_, n) => set(live, `key ${n}`, '"text"')).flat();
  commit(live, [...sets, ...set(live, 'key 0', '"changed"')]);
  const filled = bytesOf(live);
  expect(filled - empty).toBeGreaterThan(500 * 300);
  const read = liveState('dc_1', { row: live.row, version: 1 }, 0);
  expect(bytesOf(read)).toBe(filled);
  replaceDb(read, {});
  read.row = { ...read.row, db: {} };
  expect(bytesOf(read)).toBe(empty);
  commit(
    live,
    sets.flatMap(({ key }) => set(live, key, undefined)),
  );
  expect(live.dbKeys).toBe(0);
  expect(bytesOf(live)).toBe(empty + live.removalBytes);
  live.row = { ...live.row, dedupe: { channel: { unique: 'x'.repeat(1200) } } };
  live.known.add('run_1', 0);
  expect(bytesOf(live)).toBeGreaterThan(empty + live.removalBytes + 1400);
});

test('keys of maps that were replaced are forgotten', () => {
  const live = open();
  for (let n = 0; n < 100; n += 1) {
    const db = { [`key${n}`]: '1' };
    replaceDb(live, db);
    live.row = { ...live.row, db };
  }
  expect(live.committedSets.size).toBe(1);
});

test('a set made before the map was replaced is not stored, whether its key was known or not', () => {
  const live = open();
  commit(live, set(live, 'known', '1'));
  const hook = [...set(live, 'known', '2'), ...set(live, 'new', '2')];
  replaceDb(live, { other: '3' });
  live.row = { ...live.row, db: { other: '3' } };
  commit(live, hook);
  expect(live.row.db).toEqual({ other: '3' });
});

test('the stored map ends up as the code sees it, also when removals are forgotten in between', () => {
  const who = fc.nat(2);
  const change = fc.record({ who, key: fc.constantFrom('a', 'b', '__proto__'), value: fc.option(fc.nat(3)) });
  const steps = fc.array(fc.oneof(change, fc.record({ who, forgets: fc.boolean() })), { maxLength: 30 });
  fc.assert(
    fc.property(steps, (list) => {
      const live = open();
      const runs: DbSet[][] = [[], [], []];
      for (const step of list) {
        if ('key' in step) {
          runs[step.who]!.push(...set(live, step.key, step.value === null ? undefined : String(step.value)));
          continue;
        }
        if (step.forgets) live.removalBytes = Number.POSITIVE_INFINITY;
        commit(live, runs[step.who]!.splice(0));
      }
      for (const run of runs) commit(live, run);
      expect(Object.entries(live.row.db).sort()).toEqual(Object.entries(live.db).sort());
    }),
    { numRuns: 2000 },
  );
});

import { expect, test } from '@jest/globals';
import type { Emit } from '@wellspring/component/program/program-types';
import { dedupe } from '@wellspring/core/dedupe';
import { recordsOf } from '@wellspring/store/collections/events';
import type { EmitterStateRow } from '@wellspring/store/collections/states';
import fc from 'fast-check';
import { arrange, type CommitInput, type Outcome, prepareCommit } from './commit.ts';
import { createCommitGroup } from './commit-group.ts';
import { commitSets, liveState, setDb } from './live-state.ts';
import type { LogRecord, RunContext } from './records.ts';

const NOW = 1_700_000_000_000;
const EMPTY: EmitterStateRow = { id: 'dc_1', db: {}, epoch: 1, dedupe: {}, last_ids: {} };
const run = (run_id = 'run_1'): RunContext => ({
  run_id,
  source_id: 'dc_1',
  owner_id: 'u_1',
  deployment_id: 'd_1',
  source_type: 'MANUAL',
  accepted_at: NOW,
});
const emit = (fields: Partial<Emit> = {}): Emit => ({
  payload: 'null',
  id: null,
  name: '',
  summary: null,
  ts: null,
  at: NOW,
  delivery_ts: null,
  ...fields,
});

interface Given extends Partial<Omit<CommitInput, 'outcome'>> {
  emits?: Emit[];
  logs?: LogRecord[];
  outcome?: Outcome;
  hop?: number;
}

/** A prepared commit, with its rows and events. */
async function prepared({ emits = [], logs = [], hop = 0, strategy = null, ...fields }: Given = {}) {
  const outcome = fields.outcome ?? { emits, errors: [], logs };
  const prepared = prepareCommit({
    state: EMPTY,
    run: run(),
    triggerEvent: () => ({ given: true }),
    handlesRecords: false,
    logsWanted: false,
    end: { state: 'ok', durationMs: 1.23456, cpuMs: 0.5 },
    now: NOW,
    strategy,
    ...fields,
    outcome: await arrange(outcome, strategy, hop),
  });
  return { ...prepared, events: [...prepared.events], emitted: [...prepared.emitted] };
}

const emits = fc.array(
  fc
    .record({
      id: fc.oneof(fc.constant(null), fc.integer({ min: 0, max: 5 }), fc.constantFrom('a', 'b')),
      name: fc.constantFrom('', 'other'),
      ts: fc.oneof(fc.constant(null), fc.integer({ min: NOW - 3, max: NOW + 3 })),
      at: fc.integer({ min: NOW - 3, max: NOW + 3 }),
    })
    .map((fields, ...rest) => emit({ ...fields, payload: JSON.stringify([fields, rest.length]) })),
  { maxLength: 12 },
);
const strategy = fc.constantFrom(null, 'unique', 'greatest', 'last' as const);

test('over any runs, ids rise within each stream, even when the clock goes back', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(emits, fc.integer({ min: -5, max: 5 })), { maxLength: 8 }),
      async (runs) => {
        let state = EMPTY;
        const keys: Record<string, string[]> = { events: [], $errors: [], $logs: [] };
        for (const [index, [list, drift]] of runs.entries()) {
          const errors = [{ name: 'Error', message: '', stack: '' }];
          const outcome = { emits: list, errors, logs: [] };
          const made = await prepared({ state, outcome, run: run(`run_${index}`), now: NOW + drift });
          for (const row of made.events) keys[row.stream]!.push(row.sort_key);
          keys.$logs!.push(made.logs.sort_key);
          state = made.state;
        }
        for (const list of Object.values(keys)) {
          expect(list).toEqual([...list].sort());
          expect(new Set(list).size).toBe(list.length);
        }
      },
    ),
  );
});

test('events are those that dedupe keeps, oldest first, in the order of their emits within one moment', async () => {
  await fc.assert(
    fc.asyncProperty(emits, strategy, async (list, how) => {
      const { events, emitted, state, logs } = await prepared({ emits: list, strategy: how });
      const time = ({ ts, at }: Emit) => ts ?? at;
      const sorted = list
        .map((one, index) => ({ one, index }))
        .sort((a, b) => time(a.one) - time(b.one) || a.index - b.index)
        .map(({ one }) => one);
      const { verdicts, caches } = dedupe(how, {}, sorted);
      const kept = sorted.filter((_, index) => verdicts[index] === 'keep');
      expect(events.map(({ payload }) => payload)).toEqual(kept.map(({ payload }) => payload));
      expect(emitted.map(({ payload, name }) => [payload, name])).toEqual(
        kept.map(({ payload, name }) => [payload, name]),
      );
      expect(state.dedupe).toEqual(caches);
      const end: unknown = JSON.parse([...logs.records].at(-1)!);
      expect(end).toMatchObject({ emitted: kept.length, deduped: list.length - kept.length });
    }),
  );
});

test('the strategy unique drops the same emits of a later run', async () => {
  await fc.assert(
    fc.asyncProperty(emits, async (list) => {
      const first = await prepared({ emits: list, strategy: 'unique' });
      const second = await prepared({
        emits: list,
        strategy: 'unique',
        state: first.state,
        run: run('run_2'),
      });
      expect(second.events).toEqual([]);
    }),
  );
});

test('the previous state is not mutated, and an emit that is known changes no cache', async () => {
  const before = structuredClone(EMPTY);
  const once = { emits: [emit({ id: 1 })], strategy: 'unique' as const };
  const first = (await prepared(once)).state;
  expect(EMPTY).toEqual(before);
  expect(first.dedupe).not.toBe(EMPTY.dedupe);
  expect((await prepared({ ...once, state: first, run: run('run_2') })).state.dedupe).toBe(first.dedupe);
});

test('ts is null when none was given', async () => {
  const { events } = await prepared({ emits: [emit({ id: 0, summary: 's' }), emit({ ts: 5, id: 'x' })] });
  expect(events.map(({ meta_id, ts, summary }) => [meta_id, ts, summary])).toEqual([
    ['x', 5, null],
    [0, null, 's'],
  ]);
});

test('log lines and emitted $logs records have the same text and the same consecutive ids', async () => {
  const logs: LogRecord[] = [{ ts: NOW, k: 'start', level: 'info', execution_id: 'run_1' }];
  const first = await prepared({ logs, logsWanted: true });
  expect(first.emitted.map(({ event_id, name }) => [event_id, name])).toEqual([
    [`${NOW}-0`, '$logs'],
    [`${NOW}-1`, '$logs'],
  ]);
  const stored = recordsOf({ run_id: 'run_1', records: `[${[...first.logs.records].join(',')}]` });
  expect(stored.map((record) => JSON.stringify(record))).toEqual(first.emitted.map(({ payload }) => payload));
  const second = await prepared({ logs, logsWanted: true, state: first.state, run: run('run_2') });
  expect(second.emitted.map(({ event_id }) => event_id)).toEqual([`${NOW}-2`, `${NOW}-3`]);
});

test('records of a run triggered by $errors or $logs are stored but not emitted', async () => {
  const outcome = { emits: [emit()], errors: [{ name: 'E', message: 'm', stack: 's' }], logs: [] };
  const { events, emitted } = await prepared({ outcome, handlesRecords: true, logsWanted: true });
  expect(events.map(({ stream }) => stream)).toEqual(['events', '$errors']);
  expect(emitted.map(({ name }) => name)).toEqual(['']);
});

test('a commit stores the sets of its own run and undoes no later set', () => {
  const live = liveState('dc_1', undefined, NOW);
  const set = (key: string, json: string | undefined) => {
    const done = setDb(live, key, json);
    if (typeof done !== 'object') throw new Error(done);
    return done;
  };
  const hook = [set('a', '"hook"'), set('b', '"hook"')];
  const first = [set('a', '1'), set('c', '1')];
  const second = [set('a', '2'), set('c', undefined)];
  const commit = (sets: typeof hook) => {
    live.row = { ...live.row, db: commitSets(live, sets) };
    return live.row.db;
  };
  expect(commit(first)).toEqual({ a: '1', c: '1' });
  expect(commit(second)).toEqual({ a: '2' });
  expect(commit(hook)).toEqual({ a: '2', b: '"hook"' });
  expect(live.db).toEqual({ a: '2', b: '"hook"' });
});

test('in any commit order the stored map ends up as the code sees it', () => {
  const sets = fc.array(fc.tuple(fc.constantFrom('a', 'b', '__proto__'), fc.option(fc.nat(3)), fc.nat(2)), {
    maxLength: 15,
  });
  fc.assert(
    fc.property(sets, fc.shuffledSubarray([0, 1, 2], { minLength: 3 }), (list, order) => {
      const live = liveState('dc_1', undefined, NOW);
      const done = list.map(([key, value, who]) => ({
        who,
        set: setDb(live, key, value === null ? undefined : String(value)),
      }));
      for (const who of order) {
        const own = done.flatMap((one) => (one.who === who && typeof one.set === 'object' ? [one.set] : []));
        live.row = { ...live.row, db: commitSets(live, own) };
      }
      expect(Object.entries(live.row.db).sort()).toEqual(Object.entries(live.db).sort());
    }),
  );
});

test('$service.db holds 64 KB; a set beyond that changes nothing', () => {
  const live = liveState('dc_1', { row: { ...EMPTY, db: { a: 'x'.repeat(60_000) } }, version: 3 }, NOW);
  const { dbRevision } = live;
  expect(setDb(live, 'b', 'x'.repeat(10_000))).toMatch(/at most 64 KB/);
  expect(live.dbRevision).toBe(dbRevision);
  expect(typeof setDb(live, 'a', undefined)).toBe('object');
  expect(typeof setDb(live, 'b', 'x'.repeat(10_000))).toBe('object');
  expect(Object.keys(live.db)).toEqual(['b']);
});

test('a large trigger event is not stored once per error of its run', async () => {
  const errors = Array.from({ length: 100 }, (_, n) => ({ name: 'Error', message: String(n), stack: '' }));
  const outcome = { emits: [], errors, logs: [] };
  const large = { text: 'x'.repeat(900_000) };
  const { events } = await prepared({ outcome, triggerEvent: () => large });
  const records = events.map(({ payload }) => JSON.parse(payload));
  expect(records.map(({ error }) => error.msg)).toEqual(errors.map(({ message }) => message));
  expect(records[0].original_event).toEqual(large);
  expect(events.reduce((sum, { payload }) => sum + payload.length, 0)).toBeLessThan(4_000_000);
});

test('while a commit of 10,000 events is made, other work gets its turns', async () => {
  const list = Array.from({ length: 10_000 }, (_, n) => emit({ id: n, payload: String(n) }));
  for (const strategy of [null, 'unique', 'greatest', 'last'] as const) {
    let turns = 0;
    let isOver = false;
    const other = () => {
      turns += 1;
      if (!isOver) setImmediate(other);
    };
    setImmediate(other);
    const outcome = { emits: list, errors: [], logs: [] };
    const arranged = await arrange(outcome, strategy, 0);
    const arrangedAfter = turns;
    const made = prepareCommit({
      ...{ state: EMPTY, run: run(), outcome: arranged, strategy, triggerEvent: () => null },
      ...{ handlesRecords: false, logsWanted: false, end: { durationMs: 0, cpuMs: 0 }, now: NOW },
    });
    const group = createCommitGroup('dc_1', 'u_1');
    group.add({ ...made, run_id: 'run_1', trace_id: 'run_1', hop: 0 }, made.state);
    const { events, outbox } = await group.close(NOW);
    isOver = true;
    expect(events).toHaveLength(10_000);
    const ids = Array.from(events, ({ id }) => id);
    expect(new Set(ids).size).toBe(10_000);
    // A commit that failed is tried again.
    expect(Array.from(events, ({ id }) => id)).toEqual(ids);
    expect(JSON.parse(outbox!.message).events).toHaveLength(10_000);
    if (strategy !== null) expect(arrangedAfter).toBeGreaterThan(30);
    expect(turns - arrangedAfter).toBeGreaterThan(60);
  }
});

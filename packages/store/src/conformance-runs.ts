import { beforeEach, describe, expect, test } from '@jest/globals';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { eventRow, logRow } from '@wellspring/testing/rows';
import { type EventRow, events, logs } from './collections/events.ts';
import { outbox } from './collections/outbox.ts';
import { type EmitterStateRow, states } from './collections/states.ts';
import type { StoreSubject } from './conformance-subject.ts';
import { ConflictError, type Store } from './port.ts';
import type { RunCommit } from './run-commit.ts';

const EMITTER = 'dc_1234567890';

const padded = (n: number) => String(n).padStart(5, '0');

export const eventOf = (n: number, rest: Partial<EventRow> = {}): EventRow =>
  eventRow(EMITTER, `${String(n).padStart(15, '0')}-000000000`, {
    run_id: `run_${padded(n)}`,
    indexed_at_ms: n,
    meta_id: n,
    payload: `{ "n": ${n} }`,
    ...rest,
  });

const state = (value: string): EmitterStateRow => ({
  id: EMITTER,
  db: { value: JSON.stringify(value) },
  epoch: 1,
  dedupe: { '': { unique: value } },
  last_ids: { events: value },
});

/** A run that emits event n, logs it, and leaves an outbox row. */
const run = (n: number, ifVersion: number, rest: Partial<RunCommit> = {}): RunCommit => ({
  state: state(String(n)),
  ifVersion,
  events: [eventOf(n)],
  logs: [logRow(EMITTER, padded(n), { run_id: `run_${padded(n)}`, indexed_at_ms: n })],
  outbox: { id: `run_${padded(n)}`, emitter_id: EMITTER, created_at_ms: n, message: '{"v":1}' },
  ...rest,
});

/** Of a run that writes nothing but its state. */
const OF_ANOTHER = { events: [], logs: [], outbox: undefined };

/** Conformance suite of commitRun. */
export function commitRunConformance(name: string, open: () => Promise<StoreSubject>): void {
  describe(`commitRun: ${name}`, () => {
    const subject = forEachTest(open);
    let store: Store;

    beforeEach(() => {
      store = subject.store;
    });

    const everything = async (of: Store = store) => ({
      state: await of.collection(states).getVersioned(EMITTER),
      events: (await of.collection(events).list({ order: 'asc' })).map(({ indexed_at_ms }) => indexed_at_ms),
      logs: (await of.collection(logs).list({ order: 'asc' })).map(({ indexed_at_ms }) => indexed_at_ms),
      outbox: (await of.collection(outbox).list({ order: 'asc' })).map(({ created_at_ms }) => created_at_ms),
    });
    const after = (n: number, version: number, numbers: number[]) => ({
      state: { row: state(String(n)), version },
      events: numbers,
      logs: numbers,
      outbox: numbers,
    });

    test('state, events, logs and outbox row are written together', async () => {
      const commit = run(1, 0);
      expect(await store.commitRun(commit)).toBe(true);
      expect(await everything()).toEqual(after(1, 1, [1]));
      expect(await store.collection(events).find({ partition: `${EMITTER}/events` })).toEqual(
        [...commit.events][0],
      );
      expect(await store.collection(logs).find({ emitter_id: EMITTER })).toEqual(commit.logs[0]);
      expect(await store.collection(outbox).get('run_00001')).toEqual(commit.outbox);
    });

    test('without logs and outbox only the state and the events are written', async () => {
      expect(await store.commitRun(run(1, 0, { logs: [], outbox: undefined, events: [] }))).toBe(true);
      expect(await everything()).toEqual({ ...after(1, 1, []) });
    });

    test('with a wrong version nothing is written', async () => {
      expect(await store.commitRun(run(1, 1))).toBe(false);
      expect(await store.commitRun(run(1, 0))).toBe(true);
      for (const wrong of [0, 2, 7]) expect(await store.commitRun(run(2, wrong))).toBe(false);
      expect(await everything()).toEqual(after(1, 1, [1]));
      expect(await store.commitRun(run(2, 1))).toBe(true);
      expect(await everything()).toEqual(after(2, 2, [1, 2]));
    });

    test('a commit of an earlier epoch is refused, also when it is based on the newest version', async () => {
      const under = (epoch: number, n: number, ifVersion: number) =>
        run(n, ifVersion, { state: { ...state(String(n)), epoch } });
      expect(await store.commitRun(under(1, 1, 0))).toBe(true);
      expect(await store.commitRun(under(3, 2, 1))).toBe(true);
      for (const epoch of [1, 2]) expect(await store.commitRun(under(epoch, 3, 2))).toBe(false);
      expect((await everything()).events).toEqual([1, 2]);
      expect(await store.commitRun(under(3, 4, 2))).toBe(true);
      expect(await store.commitRun(under(4, 5, 3))).toBe(true);
      expect((await everything()).events).toEqual([1, 2, 4, 5]);
    });

    test('large fields of the state that a commit does not give stay as they are', async () => {
      const { db, dedupe, ...small } = state('1');
      await store.commitRun(run(1, 0, { state: small }));
      expect((await everything()).state?.row).toEqual({ ...small, db: {}, dedupe: {} });
      await store.commitRun(run(2, 1, { state: { ...small, db } }));
      await store.commitRun(run(3, 2, { state: { ...small, dedupe } }));
      await store.commitRun(run(4, 3, { state: { ...small, last_ids: {} } }));
      expect((await everything()).state).toEqual({ row: { ...state('1'), last_ids: {} }, version: 4 });
    });

    test('the largest state is committed together with the largest run', async () => {
      const db = { text: 'é'.repeat(32_000) };
      const dedupe = Object.fromEntries(
        Array.from({ length: 100 }, (_, n) => [`${n}${'c'.repeat(250)}`, { greatest: 'x'.repeat(1024) }]),
      );
      const payload = 'x'.repeat(6_000_000);
      const large = [1, 2, 3].map((n) => eventOf(n, { payload }));
      expect(await store.commitRun(run(1, 0, { state: { ...state('1'), db, dedupe }, events: large }))).toBe(
        true,
      );
      expect(await store.commitRun(run(4, 1, { state: { ...state('4'), db, dedupe } }))).toBe(true);
      expect((await everything()).events).toEqual([1, 2, 3, 4]);
      expect((await everything()).state?.row).toEqual({ ...state('4'), db, dedupe });
    });

    test('of two writers one is refused, with all commits based on its first', async () => {
      await store.commitRun(run(1, 0));
      expect(await store.commitRun(run(2, 1))).toBe(true);
      expect(await Promise.all([store.commitRun(run(3, 2)), store.commitRun(run(4, 1))])).toEqual([
        true,
        false,
      ]);
      expect(await store.commitRun(run(5, 1))).toBe(false);
      expect(await everything()).toEqual(after(3, 3, [1, 2, 3]));
    });

    test('a commit with a conflict writes nothing and does not affect others', async () => {
      await store.commitRun(run(1, 0));
      const broken = store.commitRun(run(2, 1, { events: [eventOf(2), eventOf(3), eventOf(1)] }));
      const other = store.commitRun(run(4, 0, { ...OF_ANOTHER, state: { ...state('4'), id: 'dc_other' } }));
      await expect(broken).rejects.toBeInstanceOf(ConflictError);
      expect(await other).toBe(true);
      expect(await store.commitRun(run(4, 1))).toBe(true);
      expect(await everything()).toEqual(after(4, 2, [1, 4]));
    });

    test('a reader sees all of a run or nothing', async () => {
      let over = false;
      const committing = (async () => {
        for (let n = 0; n < 20; n++) await store.commitRun(run(n + 1, n));
        over = true;
      })();
      do {
        const before = (await store.collection(states).getVersioned(EMITTER))?.version ?? 0;
        const written = await store.collection(events).count();
        const later = (await store.collection(states).getVersioned(EMITTER))?.version ?? 0;
        expect(written).toBeGreaterThanOrEqual(before);
        expect(written).toBeLessThanOrEqual(later);
        await store.ping();
        await new Promise(setImmediate);
      } while (!over);
      await committing;
    });

    test('an acknowledged run survives a kill', async () => {
      await store.commitRun(run(1, 0));
      await store.commitRun(run(2, 1));
      expect(await everything(await subject.afterCrash())).toEqual(after(2, 2, [1, 2]));
    });

    test('large events keep their bytes', async () => {
      const payload = JSON.stringify({ text: 'é😀\0\ud800'.repeat(200_000) });
      await store.commitRun(run(1, 0, { events: [eventOf(1, { payload })] }));
      const [row] = await store.collection(events).list();
      expect(row?.payload === payload).toBe(true);
    });
  });
}

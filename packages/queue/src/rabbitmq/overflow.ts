import { Unavailable } from '@wellspring/core/unavailable';
import type { Store } from '@wellspring/store/port';
import { type OverflowRow, overflow } from './collections.ts';
import { type MessageJob, type ReceivedJob, receivedJob } from './received-job.ts';
import type { StoreAccess } from './store-access.ts';

export type OverflowJob = Pick<MessageJob, 'id' | 'key' | 'payload' | 'publishedAt' | 'redelivered'>;

export interface OverflowOptions {
  store: Store;
  /** Name of the partition. */
  name: string;
  /** Of its lease. */
  epoch: number;
  access: StoreAccess;
  /** Jobs of the partition in memory, by id. */
  jobs: ReadonlyMap<string, ReceivedJob>;
  /** Done before its row was removed; or failed, and no longer in memory. */
  outcomeOf(row: OverflowRow): 'done' | 'failed' | undefined;
  /** Number of waiting jobs of the key in memory. */
  waiting(key: string): number;
  /** Appends a job to the queue of its key in memory, without its payload. */
  offer(job: ReceivedJob): void;
}

/**
 * Jobs of slow keys of one partition, as rows of the store, in order and without a limit; the first of each key are in
 * memory, without their payloads. A key is *overflowing* until all its rows were handed out: new jobs of it are appended
 * to them.
 *
 * The epoch of the lease begins each `seq`: rows of a later holder follow those of a former one, which can neither read
 * nor remove them.
 */
export interface Overflow {
  isOverflowing(key: string): boolean;
  /**
   * Appends jobs in the order of the calls; their keys are overflowing from now on. Resolves with their `seq` when they
   * are durable; undefined if the partition was released first.
   */
  append(jobs: readonly OverflowJob[]): Promise<number[] | undefined>;
  /** Reads payloads by job id; those of removed rows are missing. Undefined if the partition was lost first. */
  payloads(ids: readonly string[]): Promise<Map<string, string> | undefined>;
  /** Loads more rows when few jobs of the key wait in memory. */
  refill(key: string): void;
  /** Finds keys with rows of a former owner of the partition. */
  find(): Promise<void>;
  /** The jobs are done: removes their rows. */
  remove(jobs: readonly ReceivedJob[]): void;
  /** Loads nothing any more. Resolves when all appends are done. */
  close(): Promise<unknown>;
}

const INSERT_BATCH = 500;
const INSERT_BYTES = 8 * 1024 * 1024;
/** Rows read at a time; more are read when less than half as many jobs of the key wait in memory. */
const PAGE_SIZE = 256;
/** Jobs of a partition in memory, beyond which fewer rows are read at a time. */
const MAX_IN_MEMORY = 4_096;
const MIN_PAGE_SIZE = 16;
/** Rereads of rows that are missing; with the backoff about 1.5 s, in which a store that failed over catches up. */
const MAX_REREADS = 4;

/** More rows than one holder appends to a partition. */
const ROWS_PER_EPOCH = 2 ** 32;

interface KeyState {
  /** `seq` of the last row that was read. */
  after: number;
  /** `seq` of the last row appended by this process; later reads must reach it. */
  appendedUpTo: number;
  /** Appends in progress. */
  appending: number;
  /** Rows may follow those that were read. */
  hasMore: boolean;
  isLoading: boolean;
}

interface Append {
  rows: OverflowRow[];
  states: Map<string, KeyState>;
  resolve(seqs: number[] | undefined): void;
}

function* batchesOf(rows: readonly OverflowRow[]): Generator<OverflowRow[]> {
  let [batch, bytes]: [OverflowRow[], number] = [[], 0];
  for (const row of rows) {
    if (batch.length === INSERT_BATCH || (batch.length > 0 && bytes + row.bytes > INSERT_BYTES)) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(row);
    bytes += row.bytes;
  }
  if (batch.length > 0) yield batch;
}

export function createOverflow(options: OverflowOptions): Overflow {
  const { store, name, epoch, jobs, outcomeOf, waiting, offer } = options;
  const { persist, write } = options.access;
  const rows = store.collection(overflow);
  const states = new Map<string, KeyState>();
  let nextSeq = epoch * ROWS_PER_EPOCH;
  /** Lower numbers were written by former owners, which may have handed out these jobs. */
  const firstSeq = nextSeq;
  const end = nextSeq + ROWS_PER_EPOCH;
  /** Serializes appends. */
  let writes: Promise<unknown> = Promise.resolve();
  let buffer: Append[] = [];
  let isClosed = false;

  function startOverflow(key: string): KeyState {
    let state = states.get(key);
    if (!state) {
      state = { after: 0, appendedUpTo: 0, appending: 0, hasMore: true, isLoading: false };
      states.set(key, state);
    }
    return state;
  }

  async function flush(batch: readonly Append[]): Promise<void> {
    if (buffer === batch) buffer = [];
    const all = batch.flatMap((one) => one.rows);
    const inserted = new Set<string>();
    let tries = 0;
    const isDurable = await persist('append to overflow', async () => {
      tries += 1;
      for (const some of batchesOf(all)) for (const id of await rows.insertMany(some)) inserted.add(id);
      return true;
    });
    // Others were appended before, as in a process that crashed before the acknowledgement, and keep their `seq`.
    const isInserted = ({ id }: OverflowRow) => tries > 1 || inserted.has(id);
    for (const one of batch) {
      for (const state of one.states.values()) {
        state.appending -= 1;
        state.hasMore = true;
      }
      const added = isDurable ? one.rows.filter(isInserted) : [];
      for (const { key, seq } of added) one.states.get(key)!.appendedUpTo = seq;
      one.resolve(isDurable ? one.rows.map(({ seq }) => seq) : undefined);
    }
  }

  const remove = (ids: readonly string[]) =>
    write('remove finished jobs', () => rows.removeWhere({ id: { in: ids }, seq: { lt: end } }));

  /** Reads until the result is complete, or does not become so: a store that failed over may return stale data. */
  function reread<T>(what: string, read: () => Promise<T>, isComplete: (found: T) => boolean) {
    let rereads = 0;
    return persist(what, async () => {
      const found = await read();
      if (isComplete(found) || ++rereads > MAX_REREADS) return found;
      throw new Unavailable('Stale read: rows that were written are missing.');
    });
  }

  const pageSize = () => (jobs.size < MAX_IN_MEMORY ? PAGE_SIZE : MIN_PAGE_SIZE);

  async function load(key: string, state: KeyState): Promise<void> {
    const { after } = state;
    const limit = pageSize();
    /** Rows that are appended during a read may be missing, and are read with the next page. */
    let appendedBefore = 0;
    const page = await reread(
      'load overflow',
      () => {
        appendedBefore = state.appendedUpTo;
        return rows.list({
          where: { partition: name, key, seq: { gt: after, lt: end } },
          orderBy: 'seq',
          order: 'asc',
          limit,
          texts: false,
        });
      },
      (found) =>
        found.length === limit ||
        (found.at(-1)?.seq ?? after) >= Math.min(appendedBefore, state.appendedUpTo) ||
        states.get(key) !== state,
    );
    // Released.
    if (!page || states.get(key) !== state) return;
    state.isLoading = false;
    // Jobs that were done before their row was known, e.g. during the append.
    const done: string[] = [];
    for (const row of page) {
      const { id, seq, bytes, published_at: publishedAt } = row;
      state.after = seq;
      if (jobs.has(id)) continue;
      const outcome = outcomeOf(row);
      if (outcome === 'done') done.push(id);
      else {
        const redelivered = row.redelivered ?? (seq < firstSeq || outcome === 'failed' || undefined);
        offer(receivedJob({ id, epoch, key, seq, payload: undefined, publishedAt, bytes, redelivered }, []));
      }
    }
    if (done.length > 0) remove(done);
    if (page.length === limit) state.hasMore = true;
    refill(key);
  }

  function refill(key: string): void {
    const state = states.get(key);
    if (!state || state.isLoading || state.appending > 0 || waiting(key) > pageSize() / 2) return;
    if (state.hasMore) {
      state.hasMore = false;
      state.isLoading = true;
      void load(key, state);
    } else if (waiting(key) === 0) states.delete(key);
  }

  return {
    isOverflowing: (key) => states.has(key),
    append(added) {
      const states = new Map(added.map(({ key }) => [key, startOverflow(key)]));
      for (const state of states.values()) state.appending += 1;
      const appended = added.map(({ id, key, payload, publishedAt, redelivered }) => {
        const seq = nextSeq++;
        const bytes = payload.length;
        const row = { id, partition: name, key, seq, payload, bytes, published_at: publishedAt };
        return redelivered ? { ...row, redelivered } : row;
      });
      return new Promise((resolve) => {
        buffer.push({ rows: appended, states, resolve });
        const batch = buffer;
        if (batch.length === 1) writes = writes.then(() => flush(batch));
      });
    },
    async payloads(ids) {
      if (ids.length === 0) return new Map();
      const where = { id: { in: ids }, seq: { lt: end } };
      const found = await reread(
        'load payloads',
        () => rows.list({ where, limit: ids.length }),
        ({ length }) => length === ids.length,
      );
      return found && new Map(found.map(({ id, payload }) => [id, payload]));
    },
    refill,
    async find() {
      let after = '';
      for (;;) {
        const where = { partition: name, key: { gt: after }, seq: { lt: end } };
        const [first] = await rows.list({ where, orderBy: 'key', order: 'asc', limit: 1, texts: false });
        if (!first || isClosed) return;
        after = first.key;
        // Rows behind jobs in memory are found by the next call.
        if (states.has(after) || waiting(after) > 0) continue;
        startOverflow(after);
        refill(after);
      }
    },
    remove(gone) {
      for (const { key, seq } of gone) {
        const state = states.get(key);
        if (state && state.appendedUpTo === seq) state.appendedUpTo = 0;
      }
      remove(gone.map(({ id }) => id));
    },
    close() {
      isClosed = true;
      states.clear();
      return writes;
    },
  };
}

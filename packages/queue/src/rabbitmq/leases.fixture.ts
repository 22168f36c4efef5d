import { afterEach, beforeEach, expect } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { Unavailable } from '@wellspring/core/unavailable';
import { type Database, openDatabase } from '@wellspring/sqlite/database';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import type { Store } from '@wellspring/store/port';
import { eventually } from '@wellspring/testing/eventually';
import { sessions } from './collections.ts';
import { createLeases, type Leases } from './leases.ts';

/** Number of partitions. */
export const P = 16;
export const RENEW_MS = 50;
const LEASE_MS = 400;
const all = Array.from({ length: P }, (_, partition) => partition);

/** A process that takes part. */
export interface Member {
  name: string;
  leases: Leases;
  /** Partitions according to take, release and lost. */
  works: Set<number>;
  /** Releases wait for this promise. */
  busy: Promise<void>;
  /** The store does not answer. */
  isCutOff: boolean;
  /** It is not told that its session was ended. */
  isDeaf: boolean;
  isUnable: boolean;
  statements: number;
  /** Sum of the pauses that it asked for, ms. Does not depend on the load of the machine. */
  pausedMs: number;
  /** Called with each statement of the store, and returns its answer. */
  answer(name: string, args: unknown[], answer: Promise<unknown>): Promise<unknown>;
  leave(): Promise<void>;
}

/** Processes on one store; they leave after each test. */
export function useLeases() {
  const running: Member[] = [];
  /** Partitions with two holders at the same time. */
  const clashes: string[] = [];
  /** Takings of each partition, in order. */
  const epochs = new Map<number, number[]>();
  const wakeUps = new Set<() => void>();
  const endings = new Map<string, () => void>();
  let db: Database;
  let store: Store;

  beforeEach(() => {
    db = openDatabase(':memory:');
    store = createEmbeddedStore(db);
    clashes.length = 0;
    for (const partition of all) epochs.set(partition, []);
    wakeUps.clear();
    endings.clear();
  });
  afterEach(async () => {
    for (const member of running.splice(0)) await member.leave();
    await db.close();
  });

  /** The store as one process sees it. */
  function seenBy(member: () => Member): Store {
    return {
      ...store,
      collection(definition) {
        const rows = store.collection(definition);
        return new Proxy(rows, {
          get(target, name: keyof typeof rows) {
            return async (...args: unknown[]) => {
              member().statements += 1;
              if (member().isCutOff) throw new Unavailable('cut off');
              const answer = (target[name] as (...all: unknown[]) => Promise<unknown>)(...args);
              return member().answer(name, args, answer);
            };
          },
        });
      },
    };
  }

  function join(
    name: string,
    leaseMs = LEASE_MS,
    answer: Member['answer'] = (_, __, given) => given,
    renewMs = RENEW_MS,
  ): Member {
    const stop = new AbortController();
    const leases = createLeases({
      store: seenBy(() => member),
      clock: {
        ...systemClock,
        sleep(ms, signal) {
          member.pausedMs += ms;
          return systemClock.sleep(ms, signal);
        },
      },
      log: silentLog,
      member: name,
      partitions: P,
      wakeUp: {
        send() {
          for (const wake of wakeUps) wake();
        },
        onReceived: (listener) => wakeUps.add(listener),
        sendEnded: (other) => endings.get(other)?.(),
        onEnded: (listener) => endings.set(name, () => member.isDeaf || listener()),
      },
      isAble: () => !member.isUnable,
      renewMs,
      leaseMs,
    });
    const member: Member = {
      name,
      leases,
      works: new Set(),
      busy: Promise.resolve(),
      isCutOff: false,
      isDeaf: false,
      isUnable: false,
      statements: 0,
      pausedMs: 0,
      answer,
      async leave() {
        stop.abort();
        await ended;
      },
    };
    const ended = leases.join(
      'runs',
      {
        take(partition, epoch) {
          epochs.get(partition)!.push(epoch);
          for (const other of running) {
            if (other !== member && other.works.has(partition)) {
              clashes.push(`${partition}: ${other.name} and ${name}`);
            }
          }
          member.works.add(partition);
        },
        async release(partition) {
          await member.busy;
          member.works.delete(partition);
        },
        lost: (partition) => void member.works.delete(partition),
      },
      stop.signal,
    );
    running.push(member);
    return member;
  }

  const sessionRows = () => store.collection(sessions);
  const beatOf = async (name: string) =>
    (await sessionRows().list()).find(({ id }) => id.startsWith(name))!.beat;

  /** All have an equal share, and each partition has a holder. */
  const settled = (...members: Member[]) =>
    eventually(() => {
      for (const { works, leases } of members) {
        expect(Math.abs(works.size - P / members.length)).toBeLessThan(1);
        expect(leases.held('runs')).toBe(works.size);
      }
      expect(new Set(members.flatMap(({ works }) => [...works]))).toEqual(new Set(all));
    });

  const grow = () => {
    for (const taken of epochs.values()) expect(taken).toEqual([...new Set(taken)].sort((a, b) => a - b));
  };

  return { join, settled, grow, beatOf, sessionRows, running, clashes, epochs };
}

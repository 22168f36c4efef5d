import { describe, expect, test } from '@jest/globals';
import { job, values } from './conformance-failures.ts';
import type { Admission, ConsumeOptions, Handler, Job, Queue } from './port.ts';

interface Bench {
  queue: Queue;
  /** Stops all consumers of the test. */
  stop: AbortController;
  consume(handler: Handler, options?: Partial<ConsumeOptions>): Promise<void>;
  until(condition: () => boolean | Promise<boolean>, step?: number): Promise<void>;
}

/** Admissions that a test grants manually. */
function gate() {
  const waiting = new Map<string, () => void>();
  const asked: string[] = [];
  const held = new Set<string>();
  const admit = (key: string, signal: AbortSignal) =>
    new Promise<Admission>((resolve, reject) => {
      asked.push(key);
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      waiting.set(key, () => {
        waiting.delete(key);
        held.add(key);
        resolve({ owner: key, release: () => held.delete(key) });
      });
    });
  return { admit, asked, held, waiting, open: (key: string) => waiting.get(key)?.() };
}

/** Part of the conformance suite: admission by the consumer. */
export function admissionConformance(bench: () => Bench): void {
  describe('admission', () => {
    test('a key waits for its own admission only, and releases it after its batch', async () => {
      const { queue, consume, until } = bench();
      const { admit, asked, held, open } = gate();
      const seen: { key: string; jobs: unknown[]; held: string[] }[] = [];
      consume(async (jobs) => void seen.push({ key: jobs[0].key, jobs: values(jobs), held: [...held] }), {
        batch: 2,
        admit,
      });
      await queue.publishMany('runs', [job('a', 1), job('a', 2), job('a', 3), job('b', 4), job('c', 5)]);
      await until(() => asked.length === 3);
      expect(asked.toSorted()).toEqual(['a', 'b', 'c']);
      open('b');
      await until(() => seen.length === 1);
      open('a');
      await until(() => seen.length === 2 && held.size === 0);
      expect(seen).toEqual([
        { key: 'b', jobs: [4], held: ['b'] },
        { key: 'a', jobs: [1, 2], held: ['a'] },
      ]);
      await until(() => asked.length === 4);
      open('a');
      await until(() => seen.length === 3);
      expect(seen[2]).toMatchObject({ key: 'a', jobs: [3] });
    });

    test('a batch that calls next() ends its admission', async () => {
      const { queue, consume, until } = bench();
      const { admit, asked, held, open } = gate();
      const ended = Promise.withResolvers<void>();
      const seen: unknown[] = [];
      consume(
        async (jobs, next) => {
          seen.push(...values(jobs));
          next();
          await ended.promise;
        },
        { admit },
      );
      await queue.publishMany('runs', [job('a', 1), job('a', 2)]);
      await until(() => asked.length === 1);
      open('a');
      await until(() => asked.length === 2);
      expect([seen, [...held]]).toEqual([[1], []]);
      open('a');
      await until(() => seen.length === 2);
      ended.resolve();
    });

    test('a consumer aborted while keys wait for admission leaves their jobs in order to the next consumer', async () => {
      const { queue, consume, until } = bench();
      const { admit, waiting } = gate();
      const end = new AbortController();
      const ended = consume(async () => {}, { admit, signal: end.signal });
      await queue.publishMany('runs', [job('a', 1), job('a', 2), job('b', 3)]);
      await until(() => waiting.size === 2);
      end.abort();
      await ended;
      const seen: Job[] = [];
      consume(async (jobs) => void seen.push(...jobs));
      await until(() => seen.length === 3);
      expect(values(seen.filter(({ key }) => key === 'a'))).toEqual([1, 2]);
    });

    test('a failed admission is retried', async () => {
      const { queue, consume, until } = bench();
      let asked = 0;
      const seen: Job[] = [];
      consume(async (jobs) => void seen.push(...jobs), {
        admit: async () => {
          asked += 1;
          if (asked < 3) throw new Error('The store does not answer.');
          return { owner: 'one', release() {} };
        },
      });
      await queue.publish('runs', job('a', 1));
      await until(() => seen.length === 1, 200);
      expect(asked).toBe(3);
    });

    test('thousands of keys without admission block no other key and lose no jobs', async () => {
      const { queue, consume, until } = bench();
      const { admit, waiting, open } = gate();
      const many = Array.from({ length: 3_000 }, (_, n) => job(`many${n}`, n));
      const seen: Job[] = [];
      consume(async (jobs) => void seen.push(...jobs), {
        admit: (key, signal) =>
          key.startsWith('many') ? admit(key, signal) : Promise.resolve({ owner: key, release() {} }),
      });
      for (let at = 0; at < many.length; at += 500) await queue.publishMany('runs', many.slice(at, at + 500));
      await queue.publishMany(
        'runs',
        Array.from({ length: 20 }, (_, n) => job(`other${n}`, n)),
      );
      await until(() => seen.length === 20);
      expect(seen.every(({ key }) => key.startsWith('other'))).toBe(true);
      await until(() => waiting.size === many.length);
      for (const { key } of many) open(key);
      await until(() => seen.length === many.length + 20);
      expect(new Set(values(seen.filter(({ key }) => key.startsWith('many')))).size).toBe(many.length);
      await until(async () => (await queue.depth('runs')) === 0);
    });
  });
}

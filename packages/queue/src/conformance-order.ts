import { expect } from '@jest/globals';
import fc from 'fast-check';
import type { Handler, Queue } from './port.ts';

export interface Harness {
  queue: Queue;
  consume(handler: Handler, options: { batch: number; signal: AbortSignal }): Promise<void>;
  until(condition: () => boolean, step: number): Promise<void>;
}

const plan = fc.record({
  jobs: fc.array(fc.record({ key: fc.constantFrom('a', 'b', 'c'), failures: fc.nat({ max: 3 }) }), {
    maxLength: 25,
  }),
  batch: fc.integer({ min: 1, max: 6 }),
});

/** Property: jobs of a key are handled in order, one batch at a time, under random failures and batch sizes. */
export function keptInOrder({ queue, consume, until }: Harness) {
  let round = 0;
  return fc.asyncProperty(plan, async ({ jobs, batch }) => {
    round += 1;
    const left = jobs.map(({ failures }) => failures);
    const done: number[] = [];
    const busy = new Set<string>();
    const overlaps: string[] = [];
    const end = new AbortController();
    const ended = consume(
      async (handed) => {
        const key = handed[0].key;
        if (busy.has(key)) overlaps.push(key);
        busy.add(key);
        await queue.ping();
        busy.delete(key);
        const indexes = handed.map(({ payload }) => JSON.parse(payload) as number);
        const culprit = indexes.find((index) => left[index]! > 0);
        if (culprit !== undefined) {
          left[culprit]! -= 1;
          throw new Error('this time not');
        }
        done.push(...indexes);
      },
      { batch, signal: end.signal },
    );
    await Promise.all(
      jobs.map(({ key }, index) =>
        queue.publish('runs', { key: `${round}${key}`, payload: JSON.stringify(index) }),
      ),
    );
    await until(() => done.length >= jobs.length, 1_000);
    end.abort();
    await ended;
    expect(overlaps).toEqual([]);
    for (const key of ['a', 'b', 'c']) {
      const ofKey = jobs.flatMap((one, index) => (one.key === key ? [index] : []));
      expect(done.filter((index) => jobs[index]!.key === key)).toEqual(ofKey);
    }
  });
}

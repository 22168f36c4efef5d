import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { numbers } from '@wellspring/testing/numbers';
import fc from 'fast-check';
import { admissionConformance } from './conformance-admission.ts';
import { failuresConformance, job, values } from './conformance-failures.ts';
import { keptInOrder } from './conformance-order.ts';
import type { ConsumeOptions, Handler, Job, Queue } from './port.ts';

/** A queue under test, with its clock. */
export interface QueueSubject {
  queue: Queue;
  now(): number;
  /** Advances the clock and lets due work happen. */
  advance(ms: number): Promise<void>;
  /** The queue as another process finds it after this one was killed now. Closed with the subject. */
  afterCrash(): Promise<Queue>;
  close(): Promise<void>;
}

export interface SubjectOptions {
  /** Whether the test calls `afterCrash`, and so waits until the end of a killed process is noticed. */
  crashes?: boolean;
}

/** Conformance suite of the port, for every adapter. */
export function queueConformance(
  name: string,
  open: (options?: SubjectOptions) => Promise<QueueSubject>,
): void {
  describe(`queue: ${name}`, () => {
    let subject: QueueSubject;
    let queue: Queue;
    let stop: AbortController;
    let consumers: Promise<void>[];

    const start = async (options?: SubjectOptions) => {
      subject = await open(options);
      queue = subject.queue;
    };
    beforeEach(async () => {
      await start();
      stop = new AbortController();
      consumers = [];
    });
    afterEach(async () => {
      stop.abort();
      await Promise.all(consumers);
      await subject.close();
    });

    const consume = (
      handler: Handler,
      { batch = 1, of = queue, signal = stop.signal, admit }: Partial<ConsumeOptions> & { of?: Queue } = {},
    ) => {
      const options = { batch, signal, ...(admit && { admit }) };
      const ended = of.consume('runs', handler, options);
      consumers.push(ended);
      return ended;
    };
    /** Publishes jobs to the keys given for their numbers. */
    const publishTo = (count: number, key: (i: number) => string) =>
      queue.publishMany(
        'runs',
        numbers(count).map((i) => job(key(i), i)),
      );
    /** Advances the clock until the condition holds. */
    async function until(condition: () => boolean | Promise<boolean>, step = 20): Promise<void> {
      for (let i = 0; i < 20_000; i++) {
        if (await condition()) return;
        await subject.advance(step);
      }
      throw new Error('The condition never became true.');
    }
    /** Consumes this many jobs, in order. */
    async function drain(count: number, of = queue): Promise<Job[]> {
      const seen: Job[] = [];
      const end = new AbortController();
      const ended = consume(async (jobs) => void seen.push(...jobs), { of, batch: 7, signal: end.signal });
      await until(() => seen.length >= count);
      end.abort();
      await ended;
      return seen;
    }

    test('a job is handed out unchanged', async () => {
      const at = subject.now();
      const payload = JSON.stringify({ text: 'é😀\u2028', nul: '\0', lone: '\ud800' });
      await queue.publish('runs', { key: 'dc_1', payload });
      const [seen] = await drain(1);
      expect(seen).toMatchObject({ key: 'dc_1', payload, attempt: 1 });
      expect(seen?.published_at).toBeGreaterThanOrEqual(at);
      await until(async () => (await queue.depth('runs')) === 0);
    });

    test('a job without a key is refused together with its batch; queues are separate', async () => {
      await expect(queue.publish('runs', { key: '', payload: '1' })).rejects.toThrow('key');
      await expect(queue.publishMany('runs', [job('a', 1), { key: '', payload: '2' }])).rejects.toThrow(
        'key',
      );
      expect(await queue.depth('runs')).toBe(0);
      await queue.publish('emitted', job('a', 3));
      expect(await queue.depth('emitted')).toBe(1);
      expect(await queue.depth('runs')).toBe(0);
    });

    test('jobs of a key keep the order of the publish calls, awaited or not', async () => {
      const calls = [
        queue.publish('runs', job('a', 0)),
        queue.publishMany('runs', [job('a', 1), job('a', 2)]),
        queue.publish('runs', job('a', 3)),
        queue.publishMany('runs', []),
        queue.publish('runs', job('a', 4)),
      ];
      await Promise.all(calls);
      expect(values(await drain(5))).toEqual([0, 1, 2, 3, 4]);
    });

    test('one batch of a key is out at a time, and other keys continue', async () => {
      const held = Promise.withResolvers<void>();
      const started: string[] = [];
      consume(async ([first]) => {
        started.push(`${first.key}${first.payload}`);
        if (first.key === 'slow') await held.promise;
      });
      await queue.publishMany('runs', [job('slow', 1), job('slow', 2), job('quick', 1), job('quick', 2)]);
      await until(() => started.includes('quick2'));
      expect(started).toEqual(expect.not.arrayContaining(['slow2']));
      held.resolve();
      await until(() => started.includes('slow2'));
    });

    test('a batch has consecutive jobs of one key, as many as asked for', async () => {
      await publishTo(20, (i) => (i % 2 ? 'odd' : 'even'));
      const batches: (readonly Job[])[] = [];
      consume(async (jobs) => void batches.push(jobs), { batch: 4 });
      await until(() => batches.flat().length === 20);
      for (const batch of batches) {
        expect(new Set(batch.map(({ key }) => key)).size).toBe(1);
        expect(batch.length).toBeLessThanOrEqual(4);
      }
      expect(batches.some(({ length }) => length === 4)).toBe(true);
      expect(values(batches.flat().filter(({ key }) => key === 'even'))).toEqual([
        0, 2, 4, 6, 8, 10, 12, 14, 16, 18,
      ]);
    });

    test('keys take turns: many jobs of one key do not block the others', async () => {
      await queue.publishMany('runs', [
        ...Array.from({ length: 50 }, (_, i) => job('busy', i)),
        job('late', 'one'),
        job('later', 'two'),
      ]);
      const seen = await new Promise<Job[]>((resolve) => {
        const jobs: Job[] = [];
        consume(async ([first]) => {
          if (jobs.push(first) === 52) resolve(jobs);
        });
      });
      expect(values(seen).indexOf('one')).toBeLessThan(4);
      expect(values(seen).indexOf('two')).toBeLessThan(4);
    });

    test('a queue has one consumer in a process, and another one after its end', async () => {
      const end = new AbortController();
      const first = consume(async () => {}, { signal: end.signal });
      await expect(queue.consume('runs', async () => {}, { signal: stop.signal })).rejects.toThrow(
        'The queue runs already has a consumer.',
      );
      end.abort();
      await first;
      await publishTo(3, (i) => `k${i}`);
      expect(values(await drain(3)).toSorted()).toEqual([0, 1, 2]);
    });

    test('an aborted consumer starts no batch, ends after its running ones, and leaves the other jobs to the next consumer', async () => {
      const end = new AbortController();
      const held = Promise.withResolvers<void>();
      const seen: unknown[] = [];
      let ended = false;
      const consumer = consume(
        async (jobs) => {
          seen.push(...values(jobs));
          await held.promise;
        },
        { signal: end.signal },
      ).then(() => {
        ended = true;
      });
      await queue.publishMany('runs', [job('a', 1), job('a', 2), job('b', 3)]);
      await until(() => seen.length === 2);
      end.abort();
      await subject.advance(50);
      expect(ended).toBe(false);
      held.resolve();
      await consumer;
      expect(seen.toSorted()).toEqual([1, 3]);
      expect(values(await drain(1))).toEqual([2]);
      await queue.consume('runs', async () => {}, { signal: AbortSignal.abort() });
    });

    test('unfinished jobs survive a kill, in order and with their attempts', async () => {
      await subject.close();
      await start({ crashes: true });
      await queue.publishMany('runs', [job('a', 'failing'), job('a', 2), job('b', 'done')]);
      let failed = 0;
      consume(async ([first]) => {
        if (first.key === 'b') return;
        failed += 1;
        throw new Error('later');
      });
      await until(async () => failed >= 2 && (await queue.depth('runs')) === 2);
      await queue.publish('runs', job('a', 3));
      const seen = (await drain(3, await subject.afterCrash())).filter(({ key }) => key === 'a');
      expect(values(seen)).toEqual(['failing', 2, 3]);
      expect(seen[0]!.attempt).toBeGreaterThanOrEqual(2);
    });

    admissionConformance(() => ({ queue, stop, consume, until }));
    failuresConformance(() => ({ queue, now: () => subject.now(), consume, until, drain }));

    test('jobs of a key are handled in order under random failures and batch sizes', async () => {
      await fc.assert(keptInOrder({ queue, consume, until }), { numRuns: 25 });
    });
  });
}

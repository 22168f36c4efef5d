import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import fc from 'fast-check';
import { type Sharing, shareStatements } from './share-statements.ts';

/** The test settles the statements, in order. */
function createSubject(sharing: Sharing) {
  const begun: { batch: readonly number[]; end: (error?: unknown) => void }[] = [];
  const share = shareStatements(sharing, (batch: readonly number[]) => {
    const { promise, resolve, reject } = Promise.withResolvers<string[]>();
    const end = (error?: unknown) => (error ? reject(error) : resolve(batch.map((n) => `done ${n}`)));
    begun.push({ batch, end });
    return promise;
  });
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  return { begun, share, turn };
}

test('the requests of a turn, and those during a batch in progress, form one batch', async () => {
  const { begun, share, turn } = createSubject({ batches: 1, maxSize: 100 });
  const first = [share(1), share(2)];
  await turn();
  const second = [share(3), share(4), share(5)];
  await turn();
  expect(begun.map(({ batch }) => batch)).toEqual([[1, 2]]);
  begun[0]!.end();
  expect(await Promise.all(first)).toEqual(['done 1', 'done 2']);
  await turn();
  begun[1]!.end();
  expect(await Promise.all(second)).toEqual(['done 3', 'done 4', 'done 5']);
});

test('the requests before the end of a delay form one batch', async () => {
  const delay = Promise.withResolvers<void>();
  const { begun, share, turn } = createSubject({ batches: 1, maxSize: 100, delay: () => delay.promise });
  const first = share(1);
  await turn();
  const second = share(2);
  await turn();
  expect(begun).toEqual([]);
  delay.resolve();
  await turn();
  expect(begun.map(({ batch }) => batch)).toEqual([[1, 2]]);
  begun[0]!.end();
  expect(await Promise.all([first, second])).toEqual(['done 1', 'done 2']);
});

test('batches respect the size limit, contain a key once, and keep the order per key', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({ key: fc.option(fc.constantFrom('a', 'b', 'c')), size: fc.integer({ min: 1, max: 12 }) }),
      ),
      async (places) => {
        const done: number[] = [];
        const share = shareStatements({ batches: 1, maxSize: 10 }, async (batch: readonly number[]) => {
          const sizes = batch.map((n) => places[n]!.size);
          expect(batch.length === 1 || sizes.reduce((a, b) => a + b) <= 10).toBe(true);
          const keys = batch.flatMap((n) => places[n]!.key ?? []);
          expect(new Set(keys).size).toBe(keys.length);
          done.push(...batch);
          return [...batch];
        });
        const results = await Promise.all(
          places.map(({ key, size }, n) => share(n, { size, ...(key !== null && { key }) })),
        );
        expect(results).toEqual(places.map((_, n) => n));
        for (const key of ['a', 'b', 'c']) {
          const own = done.filter((n) => places[n]!.key === key);
          expect(own).toEqual(own.toSorted((a, b) => a - b));
        }
      },
    ),
  );
});

test('an unavailable server rejects the batch and the waiting requests; later ones are sent', async () => {
  const { begun, share, turn } = createSubject({ batches: 1, maxSize: 100 });
  const key = 'same';
  const told = [share(1, { key }), share(2, { key }), share(3, { key })].map((one) => one.catch(String));
  await turn();
  const later = share(4);
  begun[0]!.end(new Unavailable('away'));
  expect(await Promise.all(told)).toEqual(['Unavailable: away', 'Unavailable: away', 'Unavailable: away']);
  await turn();
  expect(begun[1]!.batch).toEqual([4]);
  begun[1]!.end();
  expect(await later).toBe('done 4');
});

test('an error before sending rejects one request; an error of the server rejects the batch', async () => {
  const share = shareStatements({ batches: 1, maxSize: 100 }, async (batch: readonly number[]) => {
    if (batch.includes(13)) throw new TypeError('unlucky');
    if (batch.includes(99)) throw Object.assign(new Error('interrupted'), { code: 11601 });
    return [...batch];
  });
  const outcomes = async (wanted: number[]) =>
    (await Promise.allSettled(wanted.map((n) => share(n)))).map(({ status }) => status);
  expect(await outcomes([1, 13, 2])).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(await outcomes([1, 99, 2])).toEqual(['rejected', 'rejected', 'rejected']);
});

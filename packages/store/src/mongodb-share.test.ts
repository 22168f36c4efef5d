import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import fc from 'fast-check';
import { type Sharing, shareStatements } from './mongodb-share.ts';

/** Statements are settled by hand, in the order in which they were begun. */
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

test('what comes up in a turn and while a batch is under way is one batch', async () => {
  const { begun, share, turn } = createSubject({ batches: 1, most: 100 });
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

test('no batch is larger than it may be, none holds a key twice, and what has the same key stays in its order', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({ key: fc.option(fc.constantFrom('a', 'b', 'c')), size: fc.integer({ min: 1, max: 12 }) }),
      ),
      async (places) => {
        const done: number[] = [];
        const share = shareStatements({ batches: 1, most: 10 }, async (batch: readonly number[]) => {
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

test('when the server does not answer, those behind the batch are told as soon as those in it; later ones are tried', async () => {
  const { begun, share, turn } = createSubject({ batches: 1, most: 100 });
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

test('what is refused before it is sent spoils nothing else; what a server complains of befalls the whole batch', async () => {
  const share = shareStatements({ batches: 1, most: 100 }, async (batch: readonly number[]) => {
    if (batch.includes(13)) throw new TypeError('unlucky');
    if (batch.includes(99)) throw Object.assign(new Error('interrupted'), { code: 11601 });
    return [...batch];
  });
  const outcomes = async (wanted: number[]) =>
    (await Promise.allSettled(wanted.map((n) => share(n)))).map(({ status }) => status);
  expect(await outcomes([1, 13, 2])).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(await outcomes([1, 99, 2])).toEqual(['rejected', 'rejected', 'rejected']);
});

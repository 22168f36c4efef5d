import { expect, test } from '@jest/globals';
import { sources } from '@wellspring/store/collections/sources';
import { OWNER, sourceRow } from '@wellspring/testing/rows';
import { useHarness } from '@wellspring/testing/service-harness';
import fc from 'fast-check';
import { withFreeSlug } from './name.ts';
import { createKeyedQueue } from './one-at-a-time.ts';

const t = useHarness();

const insert = (owner_id: string, name_slug: string, n: number) =>
  t.store
    .collection(sources)
    .insert(sourceRow({ id: `dc_${String(n).padStart(10, '0')}`, owner_id, name_slug }));

test('of many sources created at once with one name, each tries two slugs and lists no row', async () => {
  const count = 60;
  const seen = { tried: 0, listed: 0 };
  const collection: typeof t.store.collection = (definition) => {
    const rows = t.store.collection(definition);
    const list: typeof rows.list = async (options) => {
      const found = await rows.list(options);
      seen.listed += found.length;
      return found;
    };
    return { ...rows, list };
  };
  const context = { oneAtATime: createKeyedQueue(), deps: { store: { ...t.store, collection } } };
  const created = await Promise.all(
    Array.from({ length: count }, (_, n) =>
      withFreeSlug(context, OWNER, 'Poll', async (slug) => {
        seen.tried += 1;
        await insert(OWNER, slug, n);
        return slug;
      }),
    ),
  );
  expect(new Set(created).size).toBe(count);
  expect(seen).toEqual({ tried: 2 * count - 1, listed: 0 });
});

test('a slug gets the lowest number that is free', async () => {
  const context = { oneAtATime: createKeyedQueue(), deps: t };
  let owners = 0;
  let rows = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.nat({ max: 20 }),
      fc.uniqueArray(fc.integer({ min: 1, max: 24 })),
      async (prefix, more) => {
        const owner = `u_${++owners}`;
        const taken = new Set([...Array.from({ length: prefix }, (_, i) => i + 1), ...more]);
        await insert(owner, 'poll', ++rows);
        for (const n of taken) await insert(owner, `poll-${n}`, ++rows);
        let free = 1;
        while (taken.has(free)) free += 1;
        const slug = await withFreeSlug(context, owner, 'Poll', async (tried) => {
          await insert(owner, tried, ++rows);
          return tried;
        });
        expect(slug).toBe(`poll-${free}`);
      },
    ),
    { numRuns: 30 },
  );
});

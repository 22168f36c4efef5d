import { readdir } from 'node:fs/promises';
import { expect, test } from '@jest/globals';
import { collections } from './all.ts';

test('lists every collection', async () => {
  const modules = (await readdir(import.meta.dirname)).filter((name) => /^[a-z-]+\.ts$/.test(name));
  const declared = new Set<string>();
  for (const name of modules) {
    for (const value of Object.values((await import(`./${name}`)) as Record<string, unknown>)) {
      const { name: collection, indexes } = (value ?? {}) as { name?: string; indexes?: unknown };
      if (typeof collection === 'string' && Array.isArray(indexes)) declared.add(collection);
    }
  }
  expect(declared.size).toBeGreaterThan(10);
  expect(collections.map(({ name }) => name).sort()).toEqual([...declared].sort());
});

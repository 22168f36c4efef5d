import { expect, test } from '@jest/globals';
import { collections } from './collections/all.ts';
import { SHARDS } from './mongodb-shards.ts';

test('every collection says how it is spread over shards, and nothing else does', () => {
  expect(Object.keys(SHARDS).sort()).toEqual(collections.map(({ name }) => name).sort());
});

test('what is spread is unique and looked for by what it is spread by', () => {
  for (const { name, indexes } of collections) {
    const shard = SHARDS[name]!;
    if ('stays' in shard) continue;
    for (const { fields, unique } of indexes) if (unique) expect([name, fields[0]]).toEqual([name, shard.by]);
    if (shard.by !== 'id')
      expect(indexes.flatMap(({ fields }) => fields as readonly string[])).toContain(shard.by);
  }
});

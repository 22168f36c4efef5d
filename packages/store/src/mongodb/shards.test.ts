import { expect, test } from '@jest/globals';
import { collections } from '../collections/all.ts';
import { SHARDS } from './shards.ts';

test('SHARDS covers exactly the collections', () => {
  expect(Object.keys(SHARDS).sort()).toEqual(collections.map(({ name }) => name).sort());
});

test('ids and unique indexes of sharded collections start with the shard key', () => {
  for (const { name, indexes } of collections) {
    const shard = SHARDS[name]!;
    if ('unsharded' in shard) continue;
    for (const { fields, unique } of indexes) if (unique) expect([name, fields[0]]).toEqual([name, shard.by]);
    if (shard.by !== 'id')
      expect(indexes.flatMap(({ fields }) => fields as readonly string[])).toContain(shard.by);
  }
});

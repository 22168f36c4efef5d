import { expect, test } from '@jest/globals';
import { collections } from '../collections/all.ts';

/**
 * Shard key of each collection, or the reason why it is not sharded. Sharding is manual:
 * `sh.shardCollection('wellspring.events', {partition: 'hashed'})`. With a shard key other than the id, ids start with
 * its value, since a cluster enforces uniqueness only with the shard key as prefix.
 */
type Shard = { by: string } | { unsharded: string };

const SHARDS: Record<string, Shard> = {
  states: { by: 'id' },
  events: { by: 'partition' },
  logs: { by: 'emitter_id' },
  outbox: { by: 'id' },
  accounts: { by: 'id' },
  delayed: { by: 'id' },
  workflows: { by: 'id' },
  workflow_deployments: { by: 'id' },
  running_runs: { by: 'id' },
  deployments: { by: 'id' },
  endpoints: { by: 'id' },
  timers: { by: 'id' },
  bundles: { by: 'id' },
  usage: { by: 'id' },
  idempotency_keys: { by: 'id' },
  deliveries: { by: 'id' },
  revisions: { unsharded: 'A row for each cache.' },
  components: { unsharded: 'Unique by owner and content, but found by id.' },
  sources: {
    unsharded: 'Unique by owner and slug, but found by id; the owner changes when a source is deleted.',
  },
  subscriptions: { unsharded: 'Unique by owner and both ends; read by emitter and by listener.' },
  auto_subscriptions: { unsharded: 'Like subscriptions.' },
  webhooks: { unsharded: 'A few for each owner.' },
  published_keys: { unsharded: 'A few for each component.' },
  registry: { unsharded: 'A few for each component.' },
  users: { unsharded: 'Unique by name.' },
  api_keys: { unsharded: 'Unique by hash, which every request queries.' },
  orgs: { unsharded: 'Unique by name.' },
  installation: { unsharded: 'One row.' },
  members: { unsharded: 'A few for each organization.' },
};

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

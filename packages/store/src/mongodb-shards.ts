/**
 * How the collections lie in a sharded cluster: the field by which the rows are spread, or why they stay on one shard.
 * Nothing is sharded by itself: `sh.shardCollection('wellspring.events', {partition: 'hashed'})` and so on. What is
 * spread by another field than the id has ids that begin with this field's value: a cluster keeps only the shard key
 * unique, and so what a unique index begins with.
 */
export type Shard = { by: string } | { stays: string };

export const SHARDS: Record<string, Shard> = {
  states: { by: 'id' },
  events: { by: 'partition' },
  logs: { by: 'emitter_id' },
  outbox: { by: 'id' },
  deployments: { by: 'id' },
  endpoints: { by: 'id' },
  timers: { by: 'id' },
  bundles: { by: 'id' },
  usage: { by: 'id' },
  idempotency_keys: { by: 'id' },
  deliveries: { stays: 'Unique by dedupe_key, found by id, and taken in the order in which they are due.' },
  components: { stays: 'Unique by owner and content, but found by id.' },
  sources: {
    stays: 'Unique by owner and slug, but found by id; the owner changes when a source is deleted.',
  },
  subscriptions: { stays: 'Unique by owner and both ends; read by emitter and by listener.' },
  auto_subscriptions: { stays: 'As subscriptions.' },
  webhooks: { stays: 'A few for each owner.' },
  published_keys: { stays: 'A few for each component.' },
  registry: { stays: 'A few for each component.' },
  users: { stays: 'Unique by name.' },
  api_keys: { stays: 'Unique by hash, which every request looks for.' },
  orgs: { stays: 'Unique by name.' },
  members: { stays: 'A few for each organization.' },
};

import type { CollectionDefinition } from '../collection-definition.ts';

export interface SubscriptionRow {
  id: string;
  owner_id: string;
  /** Id of its creator, through whom the ends may belong to other owners than the subscription. */
  user_id: string;
  /** A `dc_`, `p_`, `o_`, `u_` id, `dc_*` or `p_*`. */
  emitter_id: string;
  /** A `dc_`, `p_` or `wh_` id. */
  listener_id: string;
  /** Channel; '' is the default one. */
  event_name: string;
  created_at: number;
}
export const subscriptions: CollectionDefinition<SubscriptionRow> = {
  name: 'subscriptions',
  revision: { of: 'listeners' },
  indexes: [
    { fields: ['owner_id', 'emitter_id', 'listener_id', 'event_name'], unique: true },
    { fields: ['emitter_id', 'event_name'] },
    { fields: ['listener_id'] },
    { fields: ['user_id'] },
  ],
};

export interface AutoSubscriptionRow {
  id: string;
  owner_id: string;
  /** Id of its creator; see SubscriptionRow. */
  user_id: string;
  listener_id: string;
  event_name: '$errors' | '$logs';
  created_at: number;
}
export const autoSubscriptions: CollectionDefinition<AutoSubscriptionRow> = {
  name: 'auto_subscriptions',
  indexes: [
    { fields: ['owner_id', 'listener_id', 'event_name'], unique: true },
    { fields: ['listener_id'] },
    { fields: ['user_id'] },
  ],
};

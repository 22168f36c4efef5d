import type { CollectionDefinition } from '../collection-definition.ts';

export interface UserRow {
  id: string;
  username: string;
  email: string;
  plan: 'free' | 'paid';
  daily_invocations_quota: number | null;
  daily_compute_time_quota: number | null;
  created_at: number;
  updated_at: number;
  /** Its deletion has begun; it gets no new resources. */
  deleting?: true;
}
export const users: CollectionDefinition<UserRow> = {
  name: 'users',
  indexes: [{ fields: ['username'], unique: true }],
};

export interface ApiKeyRow {
  id: string;
  user_id: string;
  /** sha256 hex of the key; the key itself is never stored. */
  hash: string;
  name: string | null;
  created_at: number;
  /** Epoch seconds, to within a minute; null: never. */
  last_used_at: number | null;
}
export const apiKeys: CollectionDefinition<ApiKeyRow> = {
  name: 'api_keys',
  indexes: [{ fields: ['hash'], unique: true }, { fields: ['user_id'] }],
};

export interface OrgRow {
  id: string;
  orgname: string;
  name: string;
  email: string;
  /** CIDRs of private networks that the code of the organization may reach. */
  code_allow_networks: string[];
  created_at: number;
  updated_at: number;
  /** Its deletion has begun; it gets no new resources. */
  deleting?: true;
}
export const orgs: CollectionDefinition<OrgRow> = {
  name: 'orgs',
  indexes: [{ fields: ['orgname'], unique: true }],
};

export interface MemberRow {
  /** `<org_id>/<user_id>` */
  id: string;
  org_id: string;
  user_id: string;
}
export const members: CollectionDefinition<MemberRow> = {
  name: 'members',
  revision: { of: 'listeners' },
  indexes: [{ fields: ['user_id'] }, { fields: ['org_id', 'user_id'] }],
};

/** The day of a usage row: `yyyy-mm-dd` in UTC. @param ms epoch ms */
export const usageDay = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** Usage of one account on one day (UTC). */
export interface UsageRow {
  /** `<user_id>/<day>`; a row `<source_id>/<day>` marks that an exceeded quota was put on `$errors` of the source. */
  id: string;
  day: string;
  invocations: number;
  compute_ms: number;
  /** Number of the newest write by process: one whose answer was lost is repeated, and not added again. */
  writes?: Record<string, number>;
}
export const usage: CollectionDefinition<UsageRow> = { name: 'usage', indexes: [{ fields: ['day'] }] };

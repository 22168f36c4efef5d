import type { CollectionDefinition } from '../collection-definition.ts';

/** Credentials of a user or an organization for an app. */
export interface AccountRow {
  /** `apn_…` */
  id: string;
  /** A `u_` or `o_` id. */
  owner_id: string;
  /** Id of its creator. */
  user_id: string;
  /** Slug of the app. */
  app: string;
  name: string;
  /** JSON text of an object of texts, sealed for the id (core/seal). */
  credentials: string;
  created_at: number;
  updated_at: number;
}
export const accounts: CollectionDefinition<AccountRow> = {
  name: 'accounts',
  indexes: [{ fields: ['owner_id', 'app'] }],
};

import type { Definition } from '@wellspring/contract/definition';
import type { CollectionDefinition } from '../collection-definition.ts';

/** Owner of the components of the registry. */
export const REGISTRY = 'registry';

export interface ComponentRow {
  id: string;
  /** A `u_` or `o_` id, or `registry`. */
  owner_id: string;
  /** Packed, see packed-text.ts. */
  code: string;
  /** Packed JSON text: modules that the code imports from its own origin, by address; '' if none. */
  modules: string;
  code_hash: string;
  /** sha256 of code and modules: one row per owner and content. */
  content_hash: string;
  /** Id of the bundle row. */
  bundle_id: string;
  definition: Definition;
  /** URL of the code, as fetched or as given by the client. */
  source_url: string | null;
  created_at: number;
  updated_at: number;
}
export const components: CollectionDefinition<ComponentRow> = {
  name: 'components',
  indexes: [
    { fields: ['owner_id', 'content_hash'], unique: true },
    { fields: ['content_hash'] },
    { fields: ['bundle_id'] },
  ],
  texts: ['code', 'modules'],
};

/** Maps a key of an owner to its newest component. */
export interface PublishedKeyRow {
  /** `<owner_id>/<key>`, and `<owner_id>/<key>@<version>` when the component has a version. */
  id: string;
  owner_id: string;
  /** `key` or `key@version`. */
  key: string;
  component_id: string;
}
export const publishedKeys: CollectionDefinition<PublishedKeyRow> = {
  name: 'published_keys',
  indexes: [{ fields: ['owner_id'] }, { fields: ['component_id'] }],
};

/** A version in the registry. */
export interface RegistryRow {
  /** `<key>@<version>` */
  id: string;
  key: string;
  version: string;
  component_id: string;
  /** Of the component: tells what is published already. */
  content_hash: string;
  created_at: number;
}
export const registry: CollectionDefinition<RegistryRow> = {
  name: 'registry',
  indexes: [{ fields: ['key'] }],
};

/** Compiled code and pinned packages for the sandbox. Immutable, shared by content. */
export interface BundleRow {
  /** sha256 of the content. */
  id: string;
  /** Packed JSON text of a Bundle (contract/definition). */
  content: string;
  /** Epoch ms at which it was first found unused by components and deployments; null: in use. */
  unused_since: number | null;
}
export const bundles: CollectionDefinition<BundleRow> = {
  name: 'bundles',
  indexes: [{ fields: ['unused_since'], sparse: true }],
  texts: ['content'],
};

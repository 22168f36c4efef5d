import type { CollectionDefinition } from '../collection-definition.ts';

/** Data that all processes of an installation agree on. */
export interface InstallationRow {
  /** During a rotation of the root key, further rows have ids derived from their keys. */
  id: 'root_key' | `root_key/${string}`;
  /** Proof of a root key with which data may be sealed: a constant text, sealed (core/seal). */
  sealed: string;
}
export const installation: CollectionDefinition<InstallationRow> = { name: 'installation', indexes: [] };

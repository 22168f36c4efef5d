import type { CollectionDefinition } from '../collection-definition.ts';

/** Data that all processes of an installation agree on. */
export interface InstallationRow {
  id: 'root_key';
  /** Proof of the root key: a constant text, sealed (core/seal). */
  sealed: string;
}
export const installation: CollectionDefinition<InstallationRow> = { name: 'installation', indexes: [] };

import type { CollectionDefinition } from './collection-definition.ts';
import type { Store } from './port.ts';

/** A store under test. */
export interface StoreSubject {
  store: Store;
  /** The store as another process finds it after a kill of this one. Closed with the subject. */
  afterCrash(): Promise<Store>;
  close(): Promise<void>;
}

export interface Thing {
  id: string;
  owner: string | null;
  name?: string | null;
  rank?: number | null;
  done?: boolean;
  loose?: unknown;
  body: string;
}

export const things: CollectionDefinition<Thing> = {
  name: 'things',
  indexes: [
    { fields: ['owner', 'name'], unique: true },
    { fields: ['rank'] },
    { fields: ['owner', 'rank'] },
    { fields: ['done'] },
  ],
  texts: ['body'],
};

export const thing = (id: string, rest: Partial<Thing> = {}): Thing => ({
  id,
  owner: null,
  body: '',
  ...rest,
});
export const ids = (rows: readonly Thing[]) => rows.map(({ id }) => id);

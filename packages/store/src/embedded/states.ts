import type { Database } from '@wellspring/sqlite/database';
import { type EmitterStateRow, states } from '../collections/states.ts';
import {
  type Collection,
  type CollectionDefinition,
  ConflictError,
  type ListOptions,
  type Versioned,
} from '../port.ts';
import type { LargeField, RunCommit } from '../run-commit.ts';
import type { EmbeddedCollection } from './collection.ts';

type SmallState = Omit<EmitterStateRow, LargeField>;

/** Every commit rewrites this part of a state: its large fields have rows of their own, written when they change. */
export const smallStates = states as unknown as CollectionDefinition<SmallState>;

const LARGE: readonly LargeField[] = ['db', 'dedupe'];

export interface EmbeddedStates {
  collection: Collection<EmitterStateRow>;
  /** Within a transaction. Returns false if the state has another version or a later epoch. */
  putNow(commit: Pick<RunCommit, 'state' | 'ifVersion'>): boolean;
}

export function createStates(db: Database, rows: EmbeddedCollection<SmallState>): EmbeddedStates {
  db.exec('CREATE TABLE IF NOT EXISTS state_values (id TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL)');

  const readValue = (id: string) =>
    db.statement('SELECT value FROM state_values WHERE id = ?').get(id) as { value: string } | undefined;

  const withLargeFields = (row: SmallState): EmitterStateRow => {
    const [values, dedupe] = LARGE.map((field) => JSON.parse(readValue(`${row.id}/${field}`)?.value ?? '{}'));
    return { ...row, db: values, dedupe };
  };

  const putNow: EmbeddedStates['putNow'] = ({ state, ifVersion }) => {
    const { db: values, dedupe, ...small } = state;
    if (!rows.putNow(small, ifVersion, { epoch: state.epoch })) return false;
    for (const [field, value] of Object.entries({ db: values, dedupe })) {
      if (value === undefined) continue;
      const put = db.statement('INSERT OR REPLACE INTO state_values VALUES (?, ?)');
      put.run(`${state.id}/${field}`, JSON.stringify(value));
    }
    return true;
  };

  const insertNow = (state: EmitterStateRow) => putNow({ state, ifVersion: 0 });

  return {
    putNow,
    collection: {
      ...(rows as unknown as Collection<EmitterStateRow>),
      async get(id) {
        const found = await rows.get(id);
        return found && withLargeFields(found);
      },
      async getVersioned(id): Promise<Versioned<EmitterStateRow> | undefined> {
        const found = await rows.getVersioned(id);
        return found && { row: withLargeFields(found.row), version: found.version };
      },
      list: async (options) => (await rows.list(options as ListOptions<SmallState>)).map(withLargeFields),
      insert: (state) =>
        db.write(() => {
          if (!insertNow(state)) throw new ConflictError(states.name, ['id']);
        }),
      insertMany: (some) => db.write(() => some.filter(insertNow).map(({ id }) => id)),
      replace: (state, ifVersion) => db.write(() => putNow({ state, ifVersion })),
      remove: (id) =>
        db.write(() => {
          for (const field of LARGE)
            db.statement('DELETE FROM state_values WHERE id = ?').run(`${id}/${field}`);
          return rows.removeNow(id);
        }),
    },
  };
}

import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { type Database, openDatabase } from '@wellspring/sqlite/database';
import { tempDir } from '@wellspring/testing/temp-dir';
import type { StoreSubject } from './contract.ts';
import { createEmbeddedStore } from './embedded.ts';

export interface EmbeddedSubject extends StoreSubject {
  db: Database;
  /** Directory of its own. */
  path: string;
}

/** An embedded store in a directory of its own. For tests. */
export async function openEmbedded(): Promise<EmbeddedSubject> {
  const directory = await tempDir();
  const databases: Database[] = [];
  function at(name: string): Database {
    const db = openDatabase(join(directory.path, name, 'wellspring.db'));
    databases.push(db);
    return db;
  }
  const db = at('data');
  return {
    store: createEmbeddedStore(db),
    db,
    path: directory.path,
    /** The files as they are now: the log is not checkpointed, nothing is closed. */
    async afterCrash() {
      const filter = (source: string) => !source.endsWith('-shm');
      const copy = `crash-${databases.length}`;
      await cp(join(directory.path, 'data'), join(directory.path, copy), { recursive: true, filter });
      return createEmbeddedStore(at(copy));
    },
    async close() {
      for (const one of databases) await one.close();
      await directory.remove();
    },
  };
}

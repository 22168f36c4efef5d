import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { type Database, openDatabase } from '@wellspring/sqlite/database';
import { tempDir } from '@wellspring/testing/temp-dir';
import type { StoreSubject } from '../conformance-subject.ts';
import { createEmbeddedStore } from './store.ts';

export interface EmbeddedSubject extends StoreSubject {
  db: Database;
  path: string;
}

/** An embedded store in a temporary directory. */
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
    /** Copies the files without checkpoint and close. */
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

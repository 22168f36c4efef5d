import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { silentLog } from '@wellspring/core/log';
import { createMemory } from '@wellspring/core/memory';
import { type Database, type DatabaseOptions, openDatabase } from '@wellspring/sqlite/database';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { tempDir } from '@wellspring/testing/temp-dir';
import type { ConsumeOptions, Handler, Queue, QueueName } from '../port.ts';
import { createEmbeddedQueue } from './queue.ts';

/** A queue on a new file, for one test. */
export async function openSubject(options: DatabaseOptions = {}) {
  const directory = await tempDir();
  const clock = createFakeClock();
  const closers: (() => Promise<void>)[] = [];
  const databases: Database[] = [];
  function at(path: string) {
    const db = openDatabase(join(path, 'wellspring.db'), options);
    databases.push(db);
    const queue = createEmbeddedQueue(db, { clock, log: silentLog, memory });
    closers.push(async () => {
      await queue.close();
      await db.close();
    });
    return queue;
  }
  const memory = createMemory(128 * 1024 ** 2);
  const home = join(directory.path, 'data');
  let crashes = 0;
  const queue = at(home);
  const stop = new AbortController();
  const consumers: Promise<void>[] = [];
  const end = async () => {
    stop.abort();
    await Promise.all(consumers);
  };
  return {
    queue,
    db: databases[0]!,
    memory,
    clock,
    now: clock.now,
    /** The clock stands still during writes. */
    async advance(ms: number) {
      for (const db of databases) await db.write(() => {});
      await clock.advance(ms);
    },
    /** Copies the files without checkpoint or close. */
    async afterCrash() {
      crashes += 1;
      const copy = join(directory.path, `crash-${crashes}`);
      await mkdir(copy);
      await cp(home, copy, { recursive: true, filter: (source) => !source.endsWith('-shm') });
      return at(copy);
    },
    /** Consumes until `end` or `close`. */
    consume(name: QueueName, handler: Handler, options: Partial<ConsumeOptions> = {}, of: Queue = queue) {
      consumers.push(of.consume(name, handler, { signal: stop.signal, ...options }));
    },
    end,
    async close() {
      await end();
      for (const close of closers) await close();
      await directory.remove();
    },
  };
}

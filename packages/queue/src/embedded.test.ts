import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { type Database, openDatabase } from '@wellspring/sqlite/database';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { tempDir } from '@wellspring/testing/temp-dir';
import { queueContract } from './contract.ts';
import { createEmbeddedQueue } from './embedded.ts';
import type { Job } from './port.ts';

async function open() {
  const directory = await tempDir();
  const clock = createFakeClock();
  const closers: (() => Promise<void>)[] = [];
  const databases: Database[] = [];
  function at(path: string) {
    const db = openDatabase(join(path, 'wellspring.db'));
    databases.push(db);
    const queue = createEmbeddedQueue(db, { clock, log: silentLog });
    closers.push(async () => {
      await queue.close();
      await db.close();
    });
    return queue;
  }
  const home = join(directory.path, 'data');
  let crashes = 0;
  return {
    queue: at(home),
    clock,
    now: clock.now,
    /** Time stands still while the disk works. */
    async advance(ms: number) {
      for (const db of databases) await db.write(() => {});
      await clock.advance(ms);
    },
    /** The files as they are now: the log is not checkpointed, nothing is closed. */
    async afterCrash() {
      crashes += 1;
      const copy = join(directory.path, `crash-${crashes}`);
      await mkdir(copy);
      await cp(home, copy, { recursive: true, filter: (source) => !source.endsWith('-shm') });
      return at(copy);
    },
    async close() {
      for (const close of closers) await close();
      await directory.remove();
    },
  };
}

queueContract('embedded', open);

test('payloads beyond the memory kept for them are read from the file', async () => {
  const subject = await open();
  const large = JSON.stringify('x'.repeat(8 * 1024 * 1024));
  for (let i = 0; i < 10; i++) await subject.queue.publish('runs', { key: `k${i}`, payload: large });
  const stop = new AbortController();
  const seen = await new Promise<Job[]>((resolve) => {
    const jobs: Job[] = [];
    void subject.queue.consume(
      'runs',
      async ([job]) => {
        if (jobs.push(job) === 10) resolve(jobs);
      },
      { concurrency: 2, signal: stop.signal },
    );
  });
  expect(seen.every(({ payload }) => payload === large)).toBe(true);
  stop.abort();
  await subject.close();
});

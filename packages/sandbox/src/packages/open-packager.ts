import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Packager } from '../port.ts';
import { createBundleDisk } from './bundle-disk.ts';
import { type BundleFiles, createBundleFiles } from './bundle-files.ts';
import { collect } from './collect.ts';
import type { JailSource } from './jail/jail.ts';
import { writeJailPrograms } from './jail/programs.ts';
import { createPackager } from './packager.ts';
import { createPackagerClient } from './packager-client.ts';

export interface OpenPackagerOptions {
  dataDir: string;
  /** Directory that every user may enter and only the platform may write to. */
  shared: string;
  jail: JailSource;
  /** The unprivileged user of the jail; undefined for the platform's own. */
  user: { uid: number; gid: number } | undefined;
  packageEnvironment: Record<string, string>;
  /** See PackagerClientOptions. */
  processors?: readonly number[] | undefined;
  clock: Clock;
  log: Log;
}

export interface OpenPackager {
  packager: Packager;
  bundleFiles: BundleFiles;
  /** Tests the jail by compiling code. @returns why the jail does not work; undefined if it works */
  check(): Promise<string | undefined>;
  close(): Promise<void>;
}

const COLLECT_INTERVAL_MS = 60 * 60_000;

/** Prepares the packager. Its processes start on demand. */
export async function openPackager(options: OpenPackagerOptions): Promise<OpenPackager> {
  const { dataDir, shared, jail, user, packageEnvironment: environment, processors, clock, log } = options;
  const [bundles, packages] = [join(dataDir, 'bundles'), join(dataDir, 'packages')];
  const work = join(shared, 'packager');
  mkdirSync(work, { recursive: true });
  chmodSync(work, 0o711);
  const programs = await writeJailPrograms(work);
  const client = createPackagerClient(jail, { programs, work, packages, environment, user }, { processors });
  const packager = createPackager(client);

  const stop = new AbortController();
  async function collectRepeatedly(): Promise<void> {
    while (!stop.signal.aborted) {
      try {
        const removed = await collect({ bundles, packages, now: clock.now() });
        if (removed > 0) log.info({ removed }, 'packages.collected');
      } catch (error) {
        log.warn({ message: (error as Error).message }, 'packages.not_collected');
      }
      await clock.sleep(COLLECT_INTERVAL_MS, stop.signal);
    }
  }
  const collecting = collectRepeatedly();
  return {
    packager,
    bundleFiles: createBundleFiles(createBundleDisk(bundles, clock.now), packager, clock.now),
    async check() {
      try {
        await client.compile({ code: { code: 'export default {}' }, ownerId: '' });
        return undefined;
      } catch (error) {
        return `The jail of the packager does not work: ${(error as Error).message}`;
      }
    },
    async close() {
      stop.abort();
      await collecting;
      await client.close();
    },
  };
}

import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Packager } from '../port.ts';
import { writeJailPrograms } from './jail/programs.ts';
import { createMaterialise, type Materialise } from './materialise.ts';
import { createPackager } from './packager.ts';
import { createPackagerClient } from './packager-client.ts';

export interface OpenPackagerOptions {
  dataDir: string;
  /** A directory that every user may enter and only the platform may write to. */
  shared: string;
  /** Path of bubblewrap; undefined: no jail, for tier none. */
  bwrap: string | undefined;
  /** The unprivileged user of the jail; undefined: the platform's own. */
  user: { uid: number; gid: number } | undefined;
  packageEnvironment: Record<string, string>;
}

export interface OpenPackager {
  packager: Packager;
  materialise: Materialise;
  close(): Promise<void>;
}

/** Prepares the packager. Its thread and its processes start with the first piece of code. */
export async function openPackager(options: OpenPackagerOptions): Promise<OpenPackager> {
  const { dataDir, shared, bwrap, user, packageEnvironment: environment } = options;
  const work = join(shared, 'packager');
  mkdirSync(work, { recursive: true });
  chmodSync(work, 0o711);
  const client = createPackagerClient({
    bwrap,
    programs: await writeJailPrograms(work),
    work,
    packages: join(dataDir, 'packages'),
    environment,
    user,
  });
  const packager = createPackager(client);
  return {
    packager,
    materialise: createMaterialise(join(dataDir, 'bundles'), packager),
    close: client.close,
  };
}

import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { tempDir } from '@wellspring/testing/temp-dir';
import type { UserIds } from '../user-ids.ts';
import type { Jail } from './jail/jail.ts';
import { writeJailPrograms } from './jail/programs.ts';
import { chooseJail } from './jail.fixture.ts';
import { createPackagerClient, type PackagerClient, type PackagerClientOptions } from './packager-client.ts';

/** The processes of a packager without a platform. */
export interface TestClient extends AsyncDisposable {
  client: PackagerClient;
  /** Parent of the directories of the processes. */
  work: string;
  /** Resolves and installs version 1.0.0 of this package. */
  settle(name: string): Promise<string | null>;
}

export async function openClient(
  jail: Jail['name'],
  registry: string,
  { userIds, ...options }: PackagerClientOptions & { userIds?: UserIds } = {},
): Promise<TestClient> {
  const directory = await tempDir();
  chmodSync(directory.path, 0o711);
  const work = join(directory.path, 'work');
  mkdirSync(work);
  chmodSync(work, 0o711);
  const client = createPackagerClient(
    chooseJail(jail, join(directory.path, 'cache'), userIds),
    {
      programs: await writeJailPrograms(directory.path),
      work,
      packages: join(directory.path, 'packages'),
      environment: {
        npm_config_registry: registry,
        npm_config_userconfig: '/dev/null',
        npm_config_globalconfig: '/dev/null',
        npm_config_fetch_retries: '0',
      },
      user: process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : undefined,
    },
    options,
  );
  return {
    client,
    work,
    settle: (name) => client.settle({ [name]: { name, version: '1.0.0' } }),
    async [Symbol.asyncDispose]() {
      await client.close();
      await directory.remove();
    },
  };
}

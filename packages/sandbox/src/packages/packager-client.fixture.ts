import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { UserIds } from '../user-ids.ts';
import type { Jail } from './jail/jail.ts';
import { writeJailPrograms } from './jail/programs.ts';
import { chooseJail, NPM_DEFAULTS, openDirectory, UNPRIVILEGED } from './jail.fixture.ts';
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
  const directory = await openDirectory();
  const work = join(directory.path, 'work');
  mkdirSync(work);
  chmodSync(work, 0o711);
  const client = createPackagerClient(
    chooseJail(jail, join(directory.path, 'cache'), userIds),
    {
      programs: await writeJailPrograms(directory.path),
      work,
      packages: join(directory.path, 'packages'),
      environment: { ...NPM_DEFAULTS, npm_config_registry: registry },
      user: UNPRIVILEGED,
    },
    options,
  );
  return {
    client,
    work,
    settle: (name) => client.settle({ packages: { [name]: { name, version: '1.0.0' } }, ownerId: 'u_test' }),
    async [Symbol.asyncDispose]() {
      await client.close();
      await directory.remove();
    },
  };
}

import { describe, test } from '@jest/globals';
import { askKeeper } from './ask-keeper.ts';
import type { ServerName } from './server.ts';

type Urls<Name extends ServerName> = Record<Name, string>;

/**
 * Defines tests on servers which all suites of a run share, and which are started when the first one asks. A suite keeps
 * to itself by a database, queue prefix or key prefix of its own. Where a server is missing, the tests are skipped; the
 * run says so at its end, and fails when `CI` is set.
 */
export async function withServers<Name extends ServerName>(
  names: readonly Name[],
  define: (urls: Urls<Name>) => void,
): Promise<void> {
  const urls: Partial<Urls<Name>> = {};
  for (const name of names) {
    const url = await sharedServer(name);
    if (url === undefined) return skip(name);
    urls[name] = url;
  }
  define(urls as Urls<Name>);
}

/** Defines tests that start servers of their own, to kill them; skipped as those of `withServers`. */
export async function withPrograms(names: readonly ServerName[], define: () => void): Promise<void> {
  for (const name of names) {
    if ((await askKeeper('POST', `/programs/${name}`)).missing !== undefined) return skip(name);
  }
  define();
}

/** The URL of the server that the suites of a run share, or undefined when it is missing. @throws Error when it does not start */
export async function sharedServer(name: ServerName): Promise<string | undefined> {
  return (await askKeeper('POST', `/servers/${name}`)).url;
}

/** A file without tests is an error to jest. */
function skip(name: ServerName): void {
  describe.skip(`${name} is missing`, () => {
    test('skipped', () => {});
  });
}

import { describe, test } from '@jest/globals';
import { askDaemon } from './ask-daemon.ts';
import type { ServerName } from './server.ts';

type Urls<Name extends ServerName> = Record<Name, string>;

/**
 * Defines tests on servers that all suites of a run share, started on first use. Suites isolate themselves by a unique
 * database name, queue prefix or key prefix. If a server is missing, the tests are skipped and listed at the end of the
 * run, which fails when `CI` is set.
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

/** Defines tests that start and kill their own servers; skipped like those of `withServers`. */
export async function withPrograms(names: readonly ServerName[], define: () => void): Promise<void> {
  for (const name of names) {
    if ((await askDaemon('POST', `/programs/${name}`)).missing !== undefined) return skip(name);
  }
  define();
}

/** URL of a shared server, or undefined if it is missing. @throws Error if it does not start */
async function sharedServer(name: ServerName): Promise<string | undefined> {
  return (await askDaemon('POST', `/servers/${name}`)).url;
}

/** Jest fails on a file without tests. */
function skip(name: ServerName): void {
  describe.skip(`${name} is missing`, () => {
    test('skipped', () => {});
  });
}

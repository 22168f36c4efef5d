import { describe, expect, test } from '@jest/globals';
import { runInstaller } from './installer.ts';
import type { Jail } from './jail/jail.ts';
import { JAILS, openJail } from './jail.fixture.ts';
import type { UsageLimits } from './jailed/watch-usage.ts';

/** The same jail with other limits for the program in it. */
const limited = (jail: Jail, limits: UsageLimits): Jail => ({
  ...jail,
  spawn(program) {
    const jailed = jail.spawn(program);
    return { ...jailed, view: { ...jailed.view, limits } };
  },
});

// The launcher enforces limits itself: see jail/launcher.test.ts.
describe.each(JAILS.filter((name) => name !== 'launcher'))('the package manager in jail %s', (name) => {
  const manifest = JSON.stringify({ name: 'component', private: true });
  const resolve = (jail: Jail) =>
    runInstaller(
      jail,
      { stage: 'resolve', manifest, lockfile: null, token: 'none' },
      undefined,
      new AbortController().signal,
    );

  test.each([
    ['files and directories', { bytes: 1e9, inodes: 2 }],
    ['bytes', { bytes: 1, inodes: 1e6 }],
  ])('fails if its directory exceeds the limit of %s', async (_, limits) => {
    await using opened = await openJail(name);
    await expect(resolve(limited(opened.jail, limits))).rejects.toMatchObject({
      name: 'InstallFailed',
      output: expect.stringContaining('No space left'),
    });
    expect(await resolve(opened.jail)).toContain('lockfileVersion');
  });
});

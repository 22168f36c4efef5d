import { PassThrough, Readable } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import { runInstaller } from './installer.ts';
import type { Jail } from './jail/jail.ts';
import { JAILS, openJail } from './jail.fixture.ts';
import type { UsageLimits } from './jailed/watch-usage.ts';

const MB = 1024 * 1024;

/** The same jail with other limits for the program in it. */
const limited = (jail: Jail, limits: UsageLimits): Jail => ({
  ...jail,
  spawn(program) {
    const jailed = jail.spawn(program);
    return { ...jailed, view: { ...jailed.view, limits } };
  },
});

/** A package manager that writes this frame again and again. */
function forged(repeated: Buffer, taken: (bytes: number) => void): Jail {
  const stdout = Readable.from(
    (function* () {
      for (let bytes = repeated.length; ; bytes += repeated.length) {
        yield repeated;
        taken(bytes);
      }
    })(),
    { objectMode: false, highWaterMark: MB },
  );
  const child = { on: () => {}, stdin: new PassThrough(), stderr: new PassThrough(), stdout };
  return {
    ...({} as Jail),
    spawn: () =>
      ({
        child,
        view: { directory: '/', packageManager: '/', gateway: {}, limits: null },
        end: async () => {
          stdout.destroy();
        },
        isFull: () => false,
      }) as never,
  };
}

const frame = (type: string, size: number): Buffer => {
  const header = Buffer.from(JSON.stringify({ type, size }));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(header.length);
  return Buffer.concat([length, header, Buffer.alloc(size)]);
};

test.each(['lockfile', 'other'])('a resolution keeps at most 16 MB of frames of type %s', async (type) => {
  let taken = 0;
  const jail = forged(frame(type, MB), (bytes) => {
    taken = bytes;
  });
  const request = { stage: 'resolve', manifest: '{}', lockfile: null, token: 'none' } as const;
  const resolved = runInstaller(jail, request, undefined, new AbortController().signal);
  await expect(resolved).rejects.toThrow('The lockfile is too large');
  expect(taken).toBeLessThan(24 * MB);
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

import { chownSync, existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SOCKET_NAME } from '../egress/relay-process.ts';
import { PRELOAD } from '../protocol.ts';
import { isEnterable } from '../readable-files.ts';
import { childEnvironment, nodeFlags, type Tier, type TierOptions, TierUnavailable, userOf } from './tier.ts';

/** setpriv of util-linux: the kernel kills the child when its parent ends, even in an endless loop. */
const SETPRIV = ['/usr/bin/setpriv', '/bin/setpriv'].find(existsSync);

/** Node's permission model: no processes, workers, addons, and no SQLite, which ignores file permissions. */
const PERMISSION_FLAGS = [
  '--permission',
  '--allow-net',
  '--disable-warning=SecurityWarning',
  '--no-addons',
  '--no-experimental-sqlite',
];

/**
 * Tier C: a plain process with Node's permission model. It protects against mistakes, not against attacks; it is never
 * chosen silently.
 * @throws TierUnavailable if the user of a child could not read the required files
 */
export function createPlainTier({ programs, readable, packages, caFile, heapMb }: TierOptions): Tier {
  const isRoot = process.getuid?.() === 0;
  if (isRoot && !isEnterable(dirname(packages))) {
    throw new TierUnavailable(
      `Other users may not enter ${dirname(packages)}. Set TMPDIR to a directory that every user may enter.`,
    );
  }
  const node = isRoot ? readable.provide(process.execPath) : process.execPath;
  const program = readable.provide(programs.child);
  const network = readable.provide(programs.network);
  const ca = caFile === undefined ? undefined : readable.provide(caFile);
  return {
    name: 'none',
    visible: ({ app, egress }) => ({ app, egress }),
    visiblePackages: packages,
    command(directory, { preload }) {
      const { app, egress, tmp } = directory;
      const user = userOf(directory);
      if (user) chownSync(tmp, user.uid, user.gid);
      const flags = [
        ...nodeFlags(heapMb),
        ...PERMISSION_FLAGS,
        ...[program, network, `${app}/*`, `${tmp}/*`, `${packages}/*`].map(
          (path) => `--allow-fs-read=${path}`,
        ),
        `--allow-fs-write=${tmp}/*`,
      ];
      const command = [node, ...flags, `--require=${network}`, program, join(egress, SOCKET_NAME)];
      if (preload) command.push(PRELOAD);
      const [file = '', ...args] =
        SETPRIV === undefined ? command : [SETPRIV, '--pdeathsig', 'KILL', '--', ...command];
      return { file, args, ...user, cwd: app, env: childEnvironment(app, tmp, ca), killMethod: 'SIGKILL' };
    },
  };
}

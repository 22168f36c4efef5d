import { spawn } from 'node:child_process';
import { chownSync, existsSync, realpathSync } from 'node:fs';
import { childEnvironment, nodeFlags, type Tier, type TierOptions } from './tier.ts';

/** Of util-linux: lets the kernel end a child with its parent, which a child that is in an endless loop needs. */
const SETPRIV = ['/usr/bin/setpriv', '/bin/setpriv'].find(existsSync);

/**
 * Tier C: a plain child with Node's permission model. Keeps honest code honest; it is no boundary, so it is never
 * chosen silently.
 */
export function createPlainTier({ program, packages, codeAllowNetworks, heapMb, user }: TierOptions): Tier {
  const realProgram = realpathSync(program);
  return {
    name: 'none',
    visible: ({ app, egress }) => ({ app, egress }),
    visiblePackages: packages,
    spawn({ app, tmp }) {
      if (user) chownSync(tmp, user.uid, user.gid);
      const flags = [
        ...nodeFlags(heapMb),
        `--allow-fs-read=${realProgram}`,
        `--allow-fs-read=${app}/*`,
        `--allow-fs-read=${tmp}/*`,
        `--allow-fs-read=${packages}/*`,
        `--allow-fs-write=${tmp}/*`,
      ];
      const node = [process.execPath, ...flags, realProgram, JSON.stringify(codeAllowNetworks)];
      const [file = '', ...args] =
        SETPRIV === undefined ? node : [SETPRIV, '--pdeathsig', 'KILL', '--', ...node];
      return spawn(file, args, {
        ...user,
        // A group of its own: Ctrl-C in a terminal, meant for the platform, does not end runs under way.
        detached: true,
        cwd: app,
        env: childEnvironment(app, tmp),
        stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      });
    },
  };
}

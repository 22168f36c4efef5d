import { spawn } from 'node:child_process';
import { chownSync, mkdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { childEnvironment, nodeFlags, type Tier, type TierOptions } from './tier.ts';

/**
 * Tier C: a plain child with Node's permission model. Keeps honest code honest; it is no boundary, so it is never
 * chosen silently.
 */
export function createPlainTier({ program, codeAllowNetworks, heapMb, user }: TierOptions): Tier {
  const realProgram = realpathSync(program);
  return {
    name: 'none',
    visibleSlot: (slot) => slot,
    spawn(slot) {
      const temporary = join(slot, 'tmp');
      mkdirSync(temporary, { recursive: true, mode: 0o700 });
      if (user) chownSync(temporary, user.uid, user.gid);
      const flags = [
        ...nodeFlags(heapMb),
        `--allow-fs-read=${realProgram}`,
        `--allow-fs-read=${slot}/*`,
        `--allow-fs-write=${temporary}/*`,
      ];
      return spawn(process.execPath, [...flags, realProgram, JSON.stringify(codeAllowNetworks)], {
        ...user,
        cwd: slot,
        env: childEnvironment(slot, temporary),
        stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      });
    },
  };
}

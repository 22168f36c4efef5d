import { rm } from 'node:fs/promises';
import { findBubblewrap } from '../../tiers/bubblewrap.ts';
import { provideLauncher } from '../../tiers/compile-launcher.ts';
import { cleanRoots } from '../../tiers/launcher-leftovers.ts';
import { type TierName, TierUnavailable } from '../../tiers/tier.ts';
import type { UserIds } from '../../user-ids.ts';
import type { JailChoice, JailSource } from './jail.ts';
import { endProcessesOf } from './user-processes.ts';

/** User ids per packager process. More than concurrent programs, since an id is freed some time after its program. */
const USER_IDS = 16;

// The package manager of a killed process may write for a moment.
const removeWork = (work: string): Promise<void> =>
  rm(work, { recursive: true, force: true, maxRetries: 10 });

/**
 * The jail of the packager in a tier.
 * @param cache directory of the compiled launcher
 * @throws TierUnavailable if it does not work on this machine
 */
export function jailFor(tier: TierName, cache: string, userIds: UserIds | undefined): JailSource {
  if (tier === 'launcher') return launcherJailFor(cache, userIds);
  const bwrap = findBubblewrap();
  if (tier === 'bubblewrap' && bwrap === undefined) throw new TierUnavailable('bubblewrap is not installed.');
  const choice: JailChoice = tier === 'bubblewrap' ? { name: 'bubblewrap', bwrap: bwrap! } : { name: 'none' };
  return () => ({ choice, end: removeWork });
}

function launcherJailFor(cache: string, userIds: UserIds | undefined): JailSource {
  if (userIds === undefined)
    throw new TierUnavailable('The launcher needs user ids that this user namespace does not map.');
  const launcher = provideLauncher(cache);
  return () => {
    const ids: number[] = [];
    const release = () => {
      for (const id of ids) userIds.release(id);
    };
    try {
      for (let count = 0; count < USER_IDS; count += 1) ids.push(userIds.allocate());
    } catch (error) {
      release();
      throw error;
    }
    return {
      choice: { name: 'launcher', launcher, userIds: ids },
      async end(work) {
        await endProcessesOf(ids, launcher);
        await cleanRoots(work, launcher);
        await removeWork(work);
        release();
      },
    };
  };
}

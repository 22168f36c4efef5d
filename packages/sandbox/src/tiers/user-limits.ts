import { readFileSync } from 'node:fs';
import type { Log } from '@wellspring/core/log';
import { CHILD_LIMITS, type TierName } from './tier.ts';

/** Watches that one process can make: half of its descriptors are epoll instances, each of which watches the others. */
const WATCHES_PER_PROCESS = (CHILD_LIMITS.nofile / 2) ** 2;

function readLimit(name: string): number | undefined {
  try {
    return Number(readFileSync(`/proc/sys/fs/${name}`, 'utf8'));
  } catch {
    return undefined;
  }
}

/**
 * Without root, namespaces do not change the user of a sandbox: the kernel counts its watches of epoll with
 * those of the platform. A filter of system calls cannot count them.
 * @param uid of the platform
 */
export function logSharedLimits(tier: TierName, log: Log, uid = process.getuid?.()): void {
  if (tier !== 'bubblewrap' || uid === 0) return;
  const epollWatches = readLimit('epoll/max_user_watches');
  const processes = epollWatches && Math.floor(epollWatches / WATCHES_PER_PROCESS);
  log.info({ uid, epollWatches, processes }, 'sandbox.shares_user_limits');
}

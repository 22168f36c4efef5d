import { readFileSync } from 'node:fs';
import type { EgressLimits } from './limits.ts';
import { MAX_LOOKUPS } from './names.ts';

/** Totals that the descriptors of the relay allow, if they are less than its limits. */
export interface FewDescriptors
  extends Pick<EgressLimits, 'totalConnections' | 'totalDials' | 'totalSockets'> {
  openFiles: number;
}

/** Look-ups, standard streams and the event loop, with a margin. */
const OTHERS = MAX_LOOKUPS + 32;
/** Part of the descriptors for connections; the others are for the sockets to which sandboxes connect. */
const PART = 3 / 4;
/** An owner may have half of a total. */
const MIN_TOTAL = 2;

/** Descriptors that this process may have. @returns undefined if there is no limit, or no such file */
export function maxOpenFiles(): number | undefined {
  try {
    const [, files] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return files === undefined ? undefined : Number(files);
  } catch {
    return undefined;
  }
}

/**
 * Reduces the totals of all sandboxes: without descriptors, the relay accepts no connection of any owner.
 * @returns undefined if the descriptors are enough
 */
export function reduceTotals(limits: EgressLimits, openFiles: number): FewDescriptors | undefined {
  const { totalConnections, totalDials, totalSockets, addresses } = limits;
  // An attempt to connect has one of the connections, and a socket for each further address.
  const needed = totalConnections + totalDials * (addresses - 1) + totalSockets;
  const factor = (openFiles * PART - OTHERS) / needed;
  if (factor >= 1) return undefined;
  const reduced = (total: number) => Math.max(MIN_TOTAL, Math.floor(total * factor));
  return {
    openFiles,
    totalConnections: reduced(totalConnections),
    totalDials: reduced(totalDials),
    totalSockets: reduced(totalSockets),
  };
}

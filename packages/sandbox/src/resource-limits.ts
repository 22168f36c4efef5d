import { join } from 'node:path';
import { LIMITS } from '@wellspring/contract/limits';
import type { Account, Sample } from './accounting.ts';
import type { ProcessDirectory } from './process-directories.ts';
import { CHILD_LIMITS, type Tier } from './tiers/tier.ts';
import { type TmpUsage, usageOfDirectory, usageOfFileSystem } from './tmp-usage.ts';

/** An exceeded limit, for which the process has to end; the message is for the author of the code. */
export interface Excess {
  reason: 'memory' | 'limit' | 'timeout';
  message: string;
}

const MB = 1024 * 1024;
/** Typical memory of an empty process, including the shared program of Node. */
const BASE_BYTES = 80 * MB;
/** Limits of the temporary directory. */
const MAX_TMP: TmpUsage = { inodes: CHILD_LIMITS.tmpInodes, bytes: CHILD_LIMITS.tmpBytes };

/** Checks memory, which includes what V8's own limit omits (buffers, WebAssembly, native code), and threads. */
export function exceeded({ residentBytes, threads, isWithoutMainThread }: Sample): Excess | undefined {
  if (isWithoutMainThread) return { reason: 'limit', message: 'The code ended its main thread.' };
  if (residentBytes > BASE_BYTES + LIMITS.memoryMb * MB)
    return { reason: 'memory', message: `Out of memory: the limit is ${LIMITS.memoryMb} MB.` };
  if (threads > CHILD_LIMITS.nproc)
    return { reason: 'limit', message: `The code started more than ${CHILD_LIMITS.nproc} threads.` };
  return undefined;
}

/** Memory of the kernel for a file or directory of a tmpfs, besides its content. */
const INODE_BYTES = 1024;

export interface TmpCheck {
  excess?: Excess;
  /** Memory of the temporary directory, if it is known to be in memory. */
  memoryBytes: number;
}

/** Checks the temporary directory; the launcher checks that of its child itself. */
export async function checkTmp(tier: Tier, directory: ProcessDirectory, { pid }: Account): Promise<TmpCheck> {
  if (tier.name === 'launcher') return { memoryBytes: 0 };
  const isFileSystem = tier.name === 'bubblewrap';
  let usage: TmpUsage;
  try {
    usage = await (isFileSystem
      ? usageOfFileSystem(join('/proc', String(pid), 'root/tmp'))
      : usageOfDirectory(directory.tmp, MAX_TMP));
  } catch (error) {
    // A process that makes itself unreadable could hide its usage. One that has ended uses nothing.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EACCES' && code !== 'EPERM') return { memoryBytes: 0 };
    const message = 'The temporary directory of the code cannot be measured.';
    return { excess: { reason: 'limit', message }, memoryBytes: 0 };
  }
  const memoryBytes = isFileSystem ? usage.bytes + usage.inodes * INODE_BYTES : 0;
  if (usage.inodes <= MAX_TMP.inodes && usage.bytes <= MAX_TMP.bytes) return { memoryBytes };
  const message = `The code put more than ${MAX_TMP.bytes / MB} MB or ${MAX_TMP.inodes} files into its temporary directory.`;
  return { excess: { reason: 'limit', message }, memoryBytes };
}

import type { ByteBudget, Release } from '@wellspring/core/byte-budget';
import type { Catalog, Deployed } from './catalog.ts';

/** A source or workflow in use: the memory of its deployment is counted until it is disposed of. */
export interface OpenDeployment extends Disposable {
  deployed: Deployed;
}

interface OpenDeps {
  catalog: Pick<Catalog, 'load'>;
  memory: ByteBudget;
}

interface OpenOptions {
  /** That of a hook. Default: the current one. */
  deploymentId?: string;
  signal: AbortSignal;
}

/**
 * A larger deployment counts as this part of the memory. It may be in use for minutes: one must not take all, and one that
 * waits must find room beside an owner that has half, since others wait behind it after a while.
 */
const MAX_PART = 4;
/** A smaller one than this part does not count: those of most sources are loaded at once, even if others hold all memory. */
const MIN_PART = 256;

/**
 * Loads a source or workflow. The size of its deployment is known only then: without memory for it, it is dropped, and
 * loaded again when there is some.
 * @returns undefined if it was deleted
 * @throws the reason of the signal
 */
export async function openDeployment(
  deps: OpenDeps,
  id: string,
  { deploymentId, signal }: OpenOptions,
): Promise<OpenDeployment | undefined> {
  let waited: { bytes: number; release: Release } | undefined;
  for (;;) {
    const found = await tryOpen(deps, id, deploymentId, waited);
    if (!found || 'deployed' in found) return found;
    const { bytes, ownerId } = found;
    waited = { bytes, release: await deps.memory.take(bytes, ownerId, signal) };
  }
}

/** @param waited memory that was waited for: it is used, or given back */
async function tryOpen(
  { catalog, memory }: OpenDeps,
  id: string,
  deploymentId: string | undefined,
  waited: { bytes: number; release: Release } | undefined,
): Promise<OpenDeployment | { bytes: number; ownerId: string } | undefined> {
  using unused = new DisposableStack();
  if (waited) unused.defer(waited.release);
  const deployed = await catalog.load(id, deploymentId);
  if (!deployed) return undefined;
  const { size } = deployed.deployment;
  if (size < memory.total / MIN_PART) return { deployed, [Symbol.dispose]() {} };
  const bytes = Math.min(size, memory.total / MAX_PART);
  const { owner_id } = deployed.emitter;
  // Hooks do not wait for the runs of their owner, which may take long: one of them may have to be switched off.
  const ownerId = deploymentId === undefined ? owner_id : `hook ${owner_id}`;
  if (waited && bytes <= waited.bytes) {
    unused.move();
    waited.release.keep(bytes);
    return { deployed, [Symbol.dispose]: waited.release };
  }
  const release = memory.tryTake(bytes, ownerId);
  return release ? { deployed, [Symbol.dispose]: release } : { bytes, ownerId };
}

import { CALLS, type PrepareCall } from '@wellspring/contract/calls';
import type { ComponentCode } from '@wellspring/contract/definition';
import { bytesOfCode } from '@wellspring/contract/definition-rules';
import { createFairPermits, withPermit } from '@wellspring/core/fair-permits';
import { invalidComponent } from '@wellspring/core/problem';
import { untilAborted } from '@wellspring/core/until-aborted';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import { noEffects, type Packager } from '@wellspring/sandbox/port';
import type { ConfigureDeps } from './configure.ts';
import type { OwnerCosts } from './owner-costs.ts';

export interface PrepareDeps
  extends Pick<ConfigureDeps, 'call' | 'executor' | 'networks' | 'openRoom' | 'meter'> {
  packager: Packager;
  costs: Pick<OwnerCosts, 'charge' | 'settled'>;
}

/** Time to evaluate the top level of a module and read its definition. */
const DEFINE_TIMEOUT_MS = 60_000;
/** Definitions read at a time, shared fairly between owners. */
const MAX_DEFINITIONS = 16;

/** Serves `runner.prepare`: compiles code, resolves its packages, reads its definition in the sandbox. */
export function prepareWorker({
  call,
  executor,
  packager,
  networks,
  costs,
  openRoom,
  meter,
}: PrepareDeps): BackgroundWorker {
  const permits = createFairPermits({ total: MAX_DEFINITIONS });

  async function prepare(code: ComponentCode, owner_id: string): Promise<PrepareCall['answer']> {
    const { id, bundle } = await packager.bundle(code, { ownerId: owner_id });
    const owner = await networks.of(owner_id);
    using room = openRoom(owner_id);
    const task = { bundleId: id, readBundle: async () => bundle, owner, call: { kind: 'define' } } as const;
    const result = await executor.execute(task, noEffects, { timeoutMs: DEFINE_TIMEOUT_MS, room });
    meter.countTime(owner_id, result.cpuMs);
    room.charge({ result });
    if (!result.ok)
      throw invalidComponent(result.error.message || `The code failed with ${result.error.name}.`);
    if (!result.definition) throw new Error('The sandbox returned no definition');
    return { bundle_id: id, bundle, definition: result.definition };
  }

  return {
    name: 'runner.prepare',
    async run(signal) {
      call.serve(
        CALLS.prepare,
        async ({ owner_id, ...code }: PrepareCall['message']): Promise<PrepareCall['answer']> => {
          await costs.settled(owner_id);
          costs.charge(owner_id, { bytes: bytesOfCode(code) });
          // Before the code is compiled: a bundle has up to 24 MB, and is in no budget while it waits.
          return withPermit(permits, owner_id, () => prepare(code, owner_id), signal);
        },
        signal,
      );
      await untilAborted(signal);
    },
  };
}

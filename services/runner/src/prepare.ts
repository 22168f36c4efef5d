import type { ThrownError } from '@wellspring/component/program/program-types';
import { CALLS, PREPARE_DEADLINE_MS, type PrepareCall } from '@wellspring/contract/calls';
import type { ComponentCode } from '@wellspring/contract/definition';
import { bytesOfCode } from '@wellspring/contract/definition-rules';
import { createFairPermits, withPermit } from '@wellspring/core/fair-permits';
import { invalidComponent } from '@wellspring/core/problem';
import { untilAborted } from '@wellspring/core/until-aborted';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import { noEffects, type Packager } from '@wellspring/sandbox/port';
import { type ConfigureDeps, holdUnsaved } from './configure.ts';
import { describeFailure, placeOf } from './describe-failure.ts';
import type { OwnerCosts } from './owner-costs.ts';

export interface PrepareDeps
  extends Pick<ConfigureDeps, 'call' | 'executor' | 'memory' | 'networks' | 'openRoom' | 'meter'> {
  packager: Packager;
  costs: Pick<OwnerCosts, 'charge' | 'settled'>;
  /** For which the caller waits. Default: PREPARE_DEADLINE_MS. */
  deadlineMs?: number;
}

/** Time to evaluate the top level of a module and read its definition. */
const DEFINE_TIMEOUT_MS = 60_000;
/** Definitions read at a time, shared fairly between owners. */
const MAX_DEFINITIONS = 16;

/** Message for the author; one with a place or cause is of the code itself. */
function describeLoadFailure(error: ThrownError): string {
  const { name, message, cause } = error;
  if (cause === undefined && placeOf(error) === undefined)
    return describeFailure({ ...error, message: message || `The code failed with ${name}.` });
  const full = `${name}: ${message || 'no message'}`;
  return `The code failed when it was loaded: ${describeFailure({ ...error, message: full })}`;
}

/** Serves `runner.prepare`: compiles code, resolves its packages, reads its definition in the sandbox. */
export function prepareWorker({
  call,
  executor,
  packager,
  networks,
  costs,
  memory,
  openRoom,
  meter,
  deadlineMs = PREPARE_DEADLINE_MS,
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
    if (!result.ok) {
      if (result.reason === 'timeout')
        throw invalidComponent(`The code was not loaded within ${DEFINE_TIMEOUT_MS / 1000} s.`);
      throw invalidComponent(describeLoadFailure(result.error));
    }
    if (!result.definition) throw new Error('The sandbox returned no definition');
    return { bundle_id: id, bundle, definition: result.definition };
  }

  return {
    name: 'runner.prepare',
    async run(signal) {
      call.serve(
        CALLS.prepare,
        async ({ owner_id, ...code }: PrepareCall['message']): Promise<PrepareCall['answer']> => {
          const bytes = bytesOfCode(code);
          using _ = holdUnsaved({ memory }, owner_id, bytes);
          const until = AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]);
          await costs.settled(owner_id, { signal: until });
          until.throwIfAborted();
          costs.charge(owner_id, { bytes });
          // Before the code is compiled: a bundle has up to 24 MB, and is in no budget while it waits.
          return await withPermit(permits, owner_id, () => prepare(code, owner_id), until);
        },
        signal,
      );
      await untilAborted(signal);
    },
  };
}

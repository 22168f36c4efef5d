import type { Log } from '@wellspring/core/log';
import { StartRefused } from '@wellspring/core/start-refused';
import type { Executor } from '../port.ts';
import { createBubblewrapTier } from './bubblewrap.ts';
import { createLauncherTier, type LauncherOptions } from './launcher.ts';
import { createPlainTier } from './none.ts';
import { type Tier, type TierName, TierUnavailable } from './tier.ts';

/** WELLSPRING_ISOLATION */
export type Isolation = 'auto' | 'required' | TierName;

/** The configured isolation does not work on this machine. The message contains the reason per tier. */
export class IsolationUnavailable extends StartRefused {
  override readonly name = 'IsolationUnavailable';
}

const CREATE: Record<TierName, (options: LauncherOptions) => Tier> = {
  bubblewrap: createBubblewrapTier,
  launcher: createLauncherTier,
  none: createPlainTier,
};

/** Tiers to try, strongest first. */
export function candidates(isolation: Isolation): TierName[] {
  if (isolation === 'auto') return ['bubblewrap', 'launcher', 'none'];
  return isolation === 'required' ? ['bubblewrap', 'launcher'] : [isolation];
}

/**
 * Chooses the strongest tier that passes its test.
 * @param prove starts the tier and tests it
 * @throws IsolationUnavailable if none passes
 */
export async function chooseTier(
  isolation: Isolation,
  options: LauncherOptions,
  log: Log,
  prove: (tier: Tier) => Promise<{ executor: Executor } | { failure: string }>,
): Promise<Executor> {
  const failures: string[] = [];
  for (const name of candidates(isolation)) {
    let failure: string;
    try {
      const proved = await prove(CREATE[name](options));
      if ('executor' in proved) {
        if (name === 'none') log.warn({ isolation }, 'sandbox.not_isolated');
        return proved.executor;
      }
      failure = proved.failure;
    } catch (error) {
      if (!(error instanceof TierUnavailable)) throw error;
      failure = error.message;
    }
    failures.push(`\n  ${name}: ${failure}`);
    log.warn({ tier: name, failure }, 'sandbox.tier_refused');
  }
  throw new IsolationUnavailable(
    `WELLSPRING_ISOLATION=${isolation}: no tier isolates user code on this machine.${failures.join('')}`,
  );
}

import type { TierName } from '../tiers/tier.ts';
import { INTERFACE_ROWS } from './interface-rows.ts';
import { ISOLATION_ROWS } from './isolation-rows.ts';
import type { AttackRow } from './row.ts';

/** The table of attacks in docs/security.md. */
export const ATTACKS: readonly AttackRow[] = [...ISOLATION_ROWS, ...INTERFACE_ROWS];

/** @throws Error if this tier has no row of this id */
export function attack(id: string, tier: TierName): AttackRow {
  const row = ATTACKS.find((one) => one.id === id && one.tiers.includes(tier));
  if (!row) throw new Error(`There is no row ${id} for tier ${tier}.`);
  return row;
}

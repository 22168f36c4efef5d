import type { TierName } from '../tiers/tier.ts';

/** One row of the table of attacks in docs/security.md. Each row has a test that names it by its id. */
export interface AttackRow {
  id: string;
  /** The action that the code of a component attempts. */
  attempt: string;
  /** The result in a sandbox. */
  expected: string;
  /** Tiers in which tests show the result. */
  tiers: readonly TierName[];
  /** Paths of the tests. */
  shownBy: readonly string[];
  /** The self-test checks it at every start. */
  atStart?: true;
}

/** Tiers in which the kernel isolates the code. */
export const KERNEL: readonly TierName[] = ['bubblewrap', 'launcher'];
export const ALL: readonly TierName[] = [...KERNEL, 'none'];

export const TESTS = 'packages/sandbox/src';

import { closestMatch } from 'leven';

/** Names that differ by more changes are not similar. */
const MAX_CHANGES = 3;

/** The name that a misspelt one probably means; undefined if none is similar. */
export const nearest = (name: string, names: readonly string[]): string | undefined =>
  closestMatch(name, names, { maxDistance: Math.min(MAX_CHANGES, Math.floor(name.length / 3)) });

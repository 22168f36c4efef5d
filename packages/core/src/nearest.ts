import { closestMatch } from 'leven';

/** More changes than this make another word. */
const MAX_CHANGES = 3;

/** The name that a misspelt one probably means; undefined: none is similar. */
export const nearest = (name: string, names: readonly string[]): string | undefined =>
  closestMatch(name, names, { maxDistance: Math.min(MAX_CHANGES, Math.floor(name.length / 3)) });

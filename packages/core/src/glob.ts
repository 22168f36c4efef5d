/** The emitters that a subscription may name besides a single one: all sources, all workflows of its owner. */
export const GLOBS = ['dc_*', 'p_*'] as const;
export type Glob = (typeof GLOBS)[number];

export const isGlob = (text: string): text is Glob => (GLOBS as readonly string[]).includes(text);

/** All emitter ids under which a subscription to this emitter may be stored. */
export const emitterPatterns = (emitterId: string, ownerId: string): string[] => [
  emitterId,
  emitterId.startsWith('p_') ? 'p_*' : 'dc_*',
  ownerId,
];

/** Patterns that a subscription may name as its emitter: all sources, or all workflows, of its owner. */
const GLOBS = ['dc_*', 'p_*'] as const;
export type Glob = (typeof GLOBS)[number];

export const isGlob = (text: string): text is Glob => (GLOBS as readonly string[]).includes(text);

/** Emitter ids of all subscriptions that match this emitter. */
export const emitterPatterns = (emitterId: string, ownerId: string): string[] => [
  emitterId,
  emitterId.startsWith('p_') ? 'p_*' : 'dc_*',
  ownerId,
];

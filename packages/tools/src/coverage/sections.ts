import type { Section } from './row.ts';

/** Rules that are no endpoint, parameter, field or limit, in the order of the document. */
export const SECTIONS: readonly Section[] = [];

import type { endpoints } from '@wellspring/contract/endpoints/all';
import type { LIMITS } from '@wellspring/contract/limits';

/** A test by the path of its file and its full title: groups and test, joined by ` › `. */
export interface Shown {
  file: string;
  title: string;
}

/** A statement about the API, and the tests that fail if it does not hold. */
export interface Rule {
  rule: string;
  shownBy: readonly Shown[];
}

/** Rules of one area, in the order of the document. */
export interface Section {
  title: string;
  rules: readonly Rule[];
}

/** Fields of a resource by path, e.g. `metadata.name` or `orgs[].id`, each with its meaning. */
export interface ResourceFields {
  fields: Record<string, string>;
  shownBy: readonly Shown[];
  /** Tests of single fields, instead of `shownBy`. */
  except?: Record<string, readonly Shown[]>;
}

/** The tests of a file. */
export const testsOf =
  (file: string) =>
  (...titles: string[]): Shown[] =>
    titles.map((title) => ({ file, title }));

export type EndpointTests = Record<keyof typeof endpoints, readonly Shown[]>;
export type LimitRules = Record<keyof typeof LIMITS, Rule>;

/**
 * A component as data: its definition after the code was evaluated in the sandbox, and the
 * bundle that the sandbox evaluates.
 */

/** What the sandbox runs. Content-addressed; made once when code is saved, so packages stay as they were resolved. */
export interface Bundle {
  format: 'esm' | 'cjs';
  /** JavaScript in one file; its imports are builtins or the aliases below. */
  code: string;
  /** npm packages by the alias under which the code imports them; empty: none. */
  packages: Record<string, { name: string; version: string }>;
  /** The lockfile of the package manager, so that another machine installs the same. */
  lockfile: string | null;
}

/** Code as it was given, before it is bundled. */
export interface ComponentCode {
  code: string;
  /** Modules below the same origin, by absolute URL, when the code came from `url`. */
  modules?: Record<string, string>;
  url?: string;
}

export interface PropDescriptor {
  name: string;
  type: string;
  label?: string;
  description?: string;
  optional?: boolean;
  secret?: boolean;
  default?: unknown;
  /** A fixed timer value: counts as default. */
  static?: unknown;
  min?: number;
  max?: number;
  /** Array of strings or {label, value}; `true` when a function gives them. */
  options?: unknown;
  app?: string;
  customResponse?: boolean;
  reloadProps?: boolean;
  useQuery?: boolean;
  withLabel?: boolean;
  hidden?: boolean;
  disabled?: boolean;
  alertType?: string;
  content?: string;
}

export type HookName = 'deploy' | 'activate' | 'deactivate';
export type DedupeStrategy = 'unique' | 'greatest' | 'last';

export interface Definition {
  name: string;
  key: string | null;
  /** '' when the code gives none. */
  version: string;
  type: 'source' | 'action' | 'app';
  description: string | null;
  props: PropDescriptor[];
  hooks: HookName[];
  dedupe: DedupeStrategy | null;
  /** False: the source emits its trigger event as it is. */
  has_run: boolean;
  /** There is an additionalProps method. */
  additional_props: boolean;
}

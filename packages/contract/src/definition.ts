/**
 * A component as data: its definition after the code was evaluated in the sandbox, and the
 * bundle that the sandbox evaluates.
 */

/** The code that the sandbox runs. Content-addressed; built once when code is saved, which pins its packages. */
export interface Bundle {
  format: 'esm' | 'cjs';
  /** JavaScript in one file; it imports only builtins and the aliases below. */
  code: string;
  /** npm packages by the alias under which the code imports them; empty: none. */
  packages: Record<string, { name: string; version: string }>;
  /** The package manager's lockfile, so that every machine installs the same packages. */
  lockfile: string | null;
}

/** Code as given, before bundling. */
export interface ComponentCode {
  code: string;
  /** URL of the code, against which its relative imports are resolved. */
  url?: string;
  /** The modules that it imports by relative specifiers, by absolute URL. */
  modules?: Record<string, string>;
  /** URLs of modules by the specifier that code and modules import. Such a specifier does not name a package. */
  imports?: Record<string, string>;
  /** Ranges of packages that are imported without one; absent: the newest version. */
  dependencies?: Record<string, string>;
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
  /** Of an app: the fields that the credentials of an account must have; names, or objects with `name` and `optional`. */
  customFields?: unknown;
  customResponse?: boolean;
  reloadProps?: boolean;
  useQuery?: boolean;
  withLabel?: boolean;
  hidden?: boolean;
  disabled?: boolean;
  alertType?: string;
  content?: string;
  /** Of resources of an app and app hooks: the app prop, and the names of events. */
  appProp?: string;
  eventNames?: unknown;
  /** Of `dir`. */
  accessMode?: string;
  sync?: boolean;
  /** Of the type sql: the app whose account it uses. */
  auth?: unknown;
  /** Of a text, such as `file-ref`. */
  format?: string;
  placeholder?: string;
  remoteOptions?: boolean;
}

/** The argument of an options method, besides the inputs of its propDefinition. */
export interface OptionsRequest {
  /** From 0. */
  page: number;
  /** The context of the page before; {} for the first page. */
  prevContext: unknown;
  /** Text that the user searches for. */
  query?: string;
}

export interface PropOption {
  label: string;
  value: unknown;
}

/** A page of options. */
export interface OptionsAnswer {
  options: PropOption[];
  /** For the next page; null: none. */
  context: unknown;
}

export type HookName = 'deploy' | 'activate' | 'deactivate';
export type DedupeStrategy = 'unique' | 'greatest' | 'last';

export interface Definition {
  name: string;
  key: string | null;
  /** '' if absent. */
  version: string;
  type: 'source' | 'action' | 'app';
  description: string | null;
  props: PropDescriptor[];
  hooks: HookName[];
  dedupe: DedupeStrategy | null;
  /** False: the source emits its trigger event unchanged. */
  has_run: boolean;
  /** The component has an additionalProps method. */
  additional_props: boolean;
}

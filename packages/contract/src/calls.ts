import type { Bundle, ComponentCode, Definition, HookName } from './definition.ts';

/** Questions between services, over the port `call`. Each address: its message and its answer. */

/** `runner.prepare`: compile code, resolve its packages, read its definition. Problem 400 `invalid_component`. */
export interface PrepareCall {
  message: ComponentCode & {
    /** Whose share of compilations and installations it uses. */
    owner_id: string;
  };
  answer: { bundle_id: string; bundle: Bundle; definition: Definition };
}

/**
 * `runner.hook`, key = source id: runs a hook of a deployment of the source beside its runs, and commits
 * what it did (emits, db, logs). Answers when it is over. A hook that the code does not have answers at once.
 */
export interface HookCall {
  message: { source_id: string; deployment_id: string; hook: HookName };
  answer: { ok: true } | { ok: false; name: string; message: string };
}

/** `runner.forget`, key = source id: the source was deleted. Its processes and state go, and nothing of it is committed. */
export interface ForgetCall {
  message: { source_id: string };
  answer: { ok: true };
}

/**
 * `components.resolve`: the component that identifiers name, saved (but not published under its key) when it is
 * given as code or URL. Precedence: component_id, component_code, key, component_url. Problems: 400, 404.
 */
export interface ResolveCall {
  message: {
    /** Whose component a given code becomes, and among whose a key is looked up. */
    owner_id: string;
    /** All owners whose components may be used by id. */
    reader_ids: string[];
    component_id?: unknown;
    component_code?: unknown;
    key?: unknown;
    component_url?: unknown;
  };
  answer: { component_id: string };
}

export const CALLS = {
  prepare: 'runner.prepare',
  hook: 'runner.hook',
  forget: 'runner.forget',
  resolve: 'components.resolve',
} as const;

/** Those that go to the process which holds the key. */
export const KEYED_CALLS: ReadonlySet<string> = new Set([CALLS.hook, CALLS.forget]);

/** A hook may take 300 s; the caller waits a little longer. */
export const HOOK_DEADLINE_MS = 310_000;
/** Compiling and installing packages. */
export const PREPARE_DEADLINE_MS = 120_000;

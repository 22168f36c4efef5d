import type {
  Bundle,
  ComponentCode,
  Definition,
  HookName,
  OptionsAnswer,
  OptionsRequest,
  PropDescriptor,
} from './definition.ts';

/** Requests between services over the port `call`: message and answer of each address. */

/** `runner.prepare`: compile code, resolve its packages, read its definition. Problem 400 `invalid_component`. */
export interface PrepareCall {
  message: ComponentCode & {
    /** The owner whose share of compilations and installations it uses. */
    owner_id: string;
  };
  answer: { bundle_id: string; bundle: Bundle; definition: Definition };
}

/**
 * `runner.hook`, key = source id: runs a hook of a deployment of the source beside its runs, and commits
 * its effects (emits, db, logs). Answers at its end; immediately if the code has no such hook.
 */
export interface HookCall {
  message: { source_id: string; deployment_id: string; hook: HookName };
  answer: { ok: true } | { ok: false; name: string; message: string };
}

/** `runner.forget`, key = source id: ends the processes of a deleted source and rejects its commits. */
export interface ForgetCall {
  message: { source_id: string };
  answer: { ok: true };
}

/** A component with values of its props, not deployed. */
interface Configured {
  owner_id: string;
  bundle_id: string;
  /** Absent: the bundle is in the store. */
  bundle?: Bundle;
  props: PropDescriptor[];
  /** JSON text of the values, sealed for `configuredFor(owner_id)` since it contains secrets. */
  values: string;
}

/** Context of sealed values; see core/seal. */
export const configuredFor = (ownerId: string): string => `configured/${ownerId}`;

/**
 * `runner.configure`: runs an options or additionalProps method in a process of its own. Nothing is stored.
 * Problem 400 `configuration_failed` with the message of the component.
 */
export interface ConfigureCall {
  message: Configured & { call: ({ kind: 'options'; prop: string } & OptionsRequest) | { kind: 'props' } };
  answer: { options?: OptionsAnswer; props?: PropDescriptor[] };
}

/** `runner.cancel`, key = source id: ends a run in progress. `found` is false if it has ended or not begun. */
export interface CancelCall {
  message: { source_id: string; run_id: string };
  answer: { found: boolean };
}

/**
 * `runner.test`: runs a component once, in a process of its own. Nothing is stored and nothing is emitted; it counts
 * towards the quotas of the owner. Problem 429.
 */
export interface TestCall {
  message: Configured & {
    type: 'source' | 'action';
    /** False: the source emits its trigger event. */
    has_run: boolean;
    /** JSON text of the event; for an action, that of the trigger. */
    event: string;
  };
  answer: {
    ok: boolean;
    /** In the order of the calls, before dedupe. `payload`: JSON text. */
    emitted: {
      payload: string;
      name: string;
      id: string | number | null;
      summary: string | null;
      ts: number | null;
    }[];
    logs: { ts: number; level: string; msg: string }[];
    response: {
      status: number;
      headers: Record<string, string | string[]> /** Base64. */;
      body: string;
    } | null;
    /** Of an action: exports by name, the return value as `$return_value`; and requests of `$.send`, not made. */
    exports: { name: string; json: string }[];
    sends: { kind: string; json: string }[];
    /** Items were left out. */
    truncated: boolean;
    duration_ms: number;
    /** The first one. */
    error: { code: string; msg: string; stack: string; cause?: string } | null;
  };
}

/**
 * `components.resolve`: finds a component; saves one that is given as code or URL, without publishing it under its key.
 * Precedence: component_id, component_code, key, component_url. Problems: 400, 404.
 */
export interface ResolveCall {
  message: {
    /** Owner of the component that is saved, or looked up by key. */
    owner_id: string;
    /** Owners whose components may be used by id. */
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
  configure: 'runner.configure',
  test: 'runner.test',
  cancel: 'runner.cancel',
  resolve: 'components.resolve',
} as const;

/** Calls that go to the process that owns the key. */
export const KEYED_CALLS: ReadonlySet<string> = new Set([CALLS.hook, CALLS.forget, CALLS.cancel]);

/** A hook or a test run may take 300 s; the caller waits slightly longer. */
export const HOOK_DEADLINE_MS = 310_000;
/** An options or additionalProps method, and waiting for its turn. */
export const CONFIGURE_DEADLINE_MS = 60_000;
/** Compiling and installing packages. */
export const PREPARE_DEADLINE_MS = 300_000;
/** A client that deploys learns after this time that no process can be reached, as while RabbitMQ is away. */
export const PREPARE_REACH_MS = 10_000;

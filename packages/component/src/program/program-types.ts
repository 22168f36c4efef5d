import type { Definition, HookName, PropDescriptor } from '@wellspring/contract/definition';
import type { HttpRequestRecord } from '@wellspring/contract/messages';

/** What makes `this` of a component. */
export interface Instance {
  source_id: string;
  props: PropDescriptor[];
  /** Values by prop name, secrets in clear. */
  values: Record<string, unknown>;
  /** By the name of an HTTP prop: the URL without trailing slash, and whether respond() is allowed. */
  endpoints: Record<string, { url: string; customResponse: boolean }>;
  /** `$service.db`: JSON texts by key, and a number that changes with every change of the map. */
  db: Record<string, string>;
  dbRevision: number;
}

export type RunTrigger =
  | { kind: 'http'; request: HttpRequestRecord }
  /** JSON text of the value given to run. */
  | { kind: 'value'; json: string };

/** An emit as it left the sandbox. Everything in it is hostile until checked. */
export interface Emit {
  /** JSON text; `null` when nothing was emitted. */
  payload: string;
  id: string | number | null;
  name: string;
  summary: string | null;
  /** Epoch ms, or null when none was given or it could not be read. */
  ts: number | null;
  /** Epoch ms of the call: the order of emits without ts. */
  at: number;
  /** Epoch ms: deliver then, not now. */
  delivery_ts: number | null;
}

export interface LogLine {
  ts: number;
  level: 'debug' | 'info' | 'warn' | 'error';
  msg: string;
}

export interface ThrownError {
  /** Name of the error class; `Error` when anything else was thrown. */
  name: string;
  message: string;
  stack: string;
}

export interface Respond {
  /** An integer in 100–599. */
  status: number;
  headers: Record<string, string | string[]>;
  /** Base64. */
  body: string;
}

/** How the program inside the child reaches the outside. Calls take effect in their order. */
export interface ChildIO {
  emit(emit: Emit): void;
  /** An emit or db.set that could not be done: goes to $errors and $logs, the run goes on. */
  fault(error: ThrownError): void;
  log(line: LogLine): void;
  respond(reply: Respond): void;
  dbSet(key: string, json: string | undefined): void;
}

/** The component as it runs in the child. */
export interface Program {
  /** @throws Error whose message tells why the module is no component */
  define(module: unknown): Definition;
  /** Makes `this`; called once more when props or endpoints changed. */
  start(module: unknown, instance: Instance): void;
  syncDb(db: Record<string, string>): void;
  /** @param emitTrigger the component has no run: emit the trigger event as it is */
  run(trigger: RunTrigger, emitTrigger: boolean): Promise<void>;
  hook(name: HookName): Promise<void>;
  /** Anything that user code may throw. */
  toThrown(error: unknown): ThrownError;
}

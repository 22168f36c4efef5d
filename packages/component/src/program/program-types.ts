import type {
  Definition,
  HookName,
  OptionsAnswer,
  OptionsRequest,
  PropDescriptor,
} from '@wellspring/contract/definition';
import type { HttpRequestRecord } from '@wellspring/contract/messages';

/** The data from which `this` of a component is built. */
export interface Instance {
  source_id: string;
  props: PropDescriptor[];
  /** Values by prop name, secrets in clear. */
  values: Record<string, unknown>;
  /** By the name of an HTTP prop: the URL without trailing slash, and whether respond() is allowed. */
  endpoints: Record<string, { url: string; customResponse: boolean }>;
  /** Credentials by the name of an app prop with an account. */
  accounts?: Record<string, Record<string, string>>;
  /** Changes with the accounts: a process that knows others is replaced. */
  accountsRevision?: string;
  /** `$service.db`: JSON texts by key, and a number that changes with every change of the map. */
  db: Record<string, string>;
  dbRevision: number;
}

export type RunTrigger =
  | { kind: 'http'; request: HttpRequestRecord }
  /** JSON text of the value given to run. */
  | { kind: 'value'; json: string };

/** A call of an action: a step of a workflow. */
export interface ActionCall {
  /** Of its props, with expressions replaced; secrets in clear. */
  values: Record<string, unknown>;
  /** JSON texts by name: `trigger: {event, context}`, and the exports of earlier steps. */
  steps: Record<string, string>;
  /** `$.context` */
  context: Record<string, unknown>;
}

export type SendKind = 'http' | 'email' | 's3';

/** An emit as received from the sandbox: hostile until validated. */
export interface Emit {
  /** JSON text; `null` when nothing was emitted. */
  payload: string;
  id: string | number | null;
  name: string;
  summary: string | null;
  /** Epoch ms; null if absent or malformed. */
  ts: number | null;
  /** Epoch ms of the call: the order of emits without ts. */
  at: number;
  /** Epoch ms of a delayed delivery. */
  delivery_ts: number | null;
  /** `$.send.sse`: only for the stream of the workflow; `name` is one line. */
  sse?: true;
}

export interface LogLine {
  ts: number;
  level: 'debug' | 'info' | 'warn' | 'error';
  msg: string;
  /** The end is missing, although the line is shorter than the limit. */
  isCut?: true;
}

export interface ThrownError {
  /** Name of the error class; `Error` for any other value. */
  name: string;
  message: string;
  stack: string;
  /** Its cause, as Node.js prints it. */
  cause?: string;
}

export interface Respond {
  /** An integer in 100–599. */
  status: number;
  headers: Record<string, string | string[]>;
  /** Base64. */
  body: string;
  /** `$.respond`: sent before the workflow has ended. */
  immediate?: true;
}

/** Calls of the program to the platform. They take effect in order. */
export interface ChildIO {
  emit(emit: Emit): void;
  /** An emit or db.set that failed: recorded in $errors and $logs; the run continues. */
  fault(error: ThrownError): void;
  log(line: LogLine): void;
  respond(reply: Respond): void;
  dbSet(key: string, json: string | undefined): void;
  /** Of an action: JSON text for later steps. */
  export(name: string, json: string): void;
  /** Of an action: JSON text of a request that is made after the run. */
  send(kind: SendKind, request: string): void;
}

/** The component in the child. */
export interface Program {
  /** @throws Error that says why the module is not a component */
  define(module: unknown): Definition;
  /** Builds `this`; called again when props or endpoints have changed. */
  start(module: unknown, instance: Instance): void;
  syncDb(db: Record<string, string>): void;
  /** @param emitTrigger the component has no run: emit the trigger event unchanged */
  run(trigger: RunTrigger, emitTrigger: boolean): Promise<void>;
  hook(name: HookName): Promise<void>;
  /** @throws Error of the component; also if it has no such prop */
  options(prop: string, request: OptionsRequest): Promise<OptionsAnswer>;
  /** All props of the component, those of additionalProps included. @throws Error of the component */
  props(): Promise<PropDescriptor[]>;
  /** @returns whether the workflow ends after this step */
  action(call: ActionCall): Promise<boolean>;
  /**
   * Any value that user code may throw.
   * @param clean applied to the stack and the cause, before they are cut
   */
  toThrown(error: unknown, clean?: (text: string) => string): ThrownError;
}

import type {
  ActionCall,
  Emit,
  Instance,
  LogLine,
  Respond,
  RunTrigger,
  SendKind,
  ThrownError,
} from '@wellspring/component/program/program-types';
import type {
  Bundle,
  ComponentCode,
  Definition,
  HookName,
  OptionsAnswer,
  OptionsRequest,
  PropDescriptor,
} from '@wellspring/contract/definition';

/**
 * Port `executor`: runs user code in isolated processes. A crash, a thrown error and an exceeded limit are results, not
 * exceptions; only a fault of the platform itself rejects.
 */
export interface Executor {
  /** How user code is isolated; see WELLSPRING_ISOLATION. */
  readonly tier: 'bubblewrap' | 'launcher' | 'none';
  /**
   * Runs one call in the process of `task.processKey`, which is taken from the pool if it does not exist or has other
   * code. Calls of one process key are executed one after the other, in the order in which they were made, without
   * waiting for earlier results. If a call kills its process, another process executes the calls behind it. The
   * callbacks of `host` are called in the order of the code's actions, before the result.
   */
  execute(task: Task, host: Host, options: CallOptions): Promise<Result>;
  /**
   * Ends the processes whose key starts with this prefix: idle ones immediately, busy ones after their calls or, with
   * `atOnce` (a source was deleted), immediately.
   */
  retire(keyPrefix: string, options?: { atOnce?: boolean }): void;
  /** Changes which private networks (CIDRs) the code of an owner may reach, including current runs. */
  allowNetworks(owner: { id: string; allowNetworks: readonly string[] }): void;
  /** Sets the function that is called with what an owner's process has used between calls, when it has ended. */
  onIdleUsage(listener: (ownerId: string, usage: IdleUsage) => void): void;
  /** `processes`: all that have not ended; `idle`: with a process key and no call; `busy`: with a call. */
  stats(): { processes: number; idle: number; busy: number; pool: number };
  /** Aborts current and waiting calls, which reject because their result is unknown. */
  close(): Promise<void>;
}

export interface CallOptions {
  timeoutMs: number;
  signal?: AbortSignal;
  /** Called when the process begins the call, after those that were made before. */
  onBegin?(): void;
  /** Absent: only the limits of a call bound its output. */
  room?: Room | undefined;
}

/** Room for the output of a call. */
export interface Room {
  /** Counts bytes of output that have arrived; negative: bytes of output that is dropped. */
  add(bytes: number): void;
  /** Counts an event, a line or another output that is kept, besides its bytes. */
  keep(): void;
  /**
   * Makes room for the output so far and for bytes that are about to arrive.
   * @returns undefined: there is room; otherwise nothing more is read from the process until the promise resolves
   */
  make(bytes: number): Promise<void> | undefined;
}

export interface Task {
  /** `<source id>/<deployment id>/run<shard>` or `…/hook`; absent: a new process is used once. */
  processKey?: string;
  /** Owner of the code, and the private networks (CIDRs) that it may reach; absent: code of the platform. */
  owner?: { id: string; allowNetworks: readonly string[] };
  /** SHA-256 of the bundle; names its files on disk. */
  bundleId: string;
  /** Called when a process starts and the files are not there: code has megabytes, and is not kept in memory. */
  readBundle(): Promise<Bundle>;
  instance?: Instance;
  call:
    | { kind: 'define' }
    | { kind: 'run'; trigger: RunTrigger; emitTrigger: boolean }
    | { kind: 'hook'; hook: HookName }
    | { kind: 'action'; action: ActionCall }
    /** Its effects besides the answer are lost. */
    | ({ kind: 'options'; prop: string } & OptionsRequest)
    | { kind: 'props' };
}

export interface Host {
  emit(emit: Emit): void;
  /** An emit or `db.set` that failed (not serialisable, too large): goes to $errors and $logs. */
  fault(error: ThrownError): void;
  log(line: LogLine): void;
  /** Base64 body; status is an integer in 100–599. At most once. */
  respond(reply: Respond): void;
  /**
   * @returns the revision of the map after the change; -1: it was not made. A process that made all changes since its
   * last call need not get the map again.
   */
  dbSet(key: string, json: string | undefined): number;
  /** Of an action: JSON text for later steps. */
  export?(name: string, json: string): void;
  /** Of an action: JSON text of a request that is made after the run. */
  send?(kind: SendKind, request: string): void;
}

/** For code that has no effect besides its answer. */
export const noEffects: Host = { emit() {}, fault() {}, log() {}, respond() {}, dbSet: () => 0 };

/**
 * `cpuMs` is counted by the kernel and includes processor time since the previous call; see IdleUsage for the last call. `endedProcesses`: processes that
 * the call made unusable, even if it succeeded; absent: none.
 */
export type Result = { durationMs: number; cpuMs: number; endedProcesses?: number } & (
  | {
      ok: true;
      /** Of `define`. */
      definition?: Definition;
      /** Of `options`. */
      options?: OptionsAnswer;
      /** Of `props`. */
      props?: PropDescriptor[];
      /** Of an action: the workflow ends after this step. */
      exit?: boolean;
    }
  | {
      ok: false;
      error: ThrownError;
      /**
       * thrown: error of the code · load: the code could not be loaded or defines no component · limit: too many
       * threads or files · protocol: invalid frames or too much output · others: as named.
       */
      reason: 'thrown' | 'load' | 'timeout' | 'memory' | 'limit' | 'crash' | 'protocol' | 'aborted';
    }
);

/** Use of a process since the end of its last call, which no result contains. */
export interface IdleUsage {
  /** Counted by the kernel. */
  cpuMs: number;
  /** 1: its code has ended it between calls. */
  endedProcesses: 0 | 1;
}

export interface Packager {
  /**
   * Compiles code (ESM, CommonJS, TypeScript) to a bundle and resolves its packages. Scripts of packages never run.
   * @param ownerId the owner of the component, whose share of compilations and installations it uses
   * @throws Problem 400 `invalid_component`: syntax error or unusable package; 503: the registry does not answer
   */
  bundle(code: ComponentCode, options: { ownerId: string }): Promise<{ id: string; bundle: Bundle }>;
}

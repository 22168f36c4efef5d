import type {
  Emit,
  Instance,
  LogLine,
  Respond,
  RunTrigger,
  ThrownError,
} from '@wellspring/component/program/program-types';
import type { Bundle, ComponentCode, Definition, HookName } from '@wellspring/contract/definition';

/**
 * Port `executor`: runs user code in processes that can do no harm. A dead child, a throw and an exceeded limit are
 * results, not exceptions; only a fault of the platform itself rejects.
 */
export interface Executor {
  /** How user code is isolated; see WELLSPRING_ISOLATION. */
  readonly tier: 'bubblewrap' | 'launcher' | 'none';
  /**
   * Runs one call in the process of `task.process`, which is started (from the pool) when it is not there or runs
   * something else. Calls with one process key are carried out one after the other, in the order in which they were
   * made; they may be made ahead. One that kills its process costs only itself: those behind it go to another.
   * The callbacks of `host` are called in the order in which the code acted, before the result.
   */
  execute(task: Task, host: Host, options: { timeoutMs: number; signal?: AbortSignal }): Promise<Result>;
  /**
   * Ends the processes whose key starts with this text: the idle ones at once, the others with the call that is under
   * way, or at once, too (a source was deleted).
   */
  retire(keyPrefix: string, options?: { atOnce?: boolean }): void;
  /** Changes which private networks (CIDRs) the code of an owner may reach, also that of runs under way. */
  allowNetworks(owner: { id: string; allowNetworks: readonly string[] }): void;
  stats(): { processes: number; idle: number; busy: number; pool: number };
  /** Breaks off what is under way and what waits: such calls reject, since nobody knows what would have come of them. */
  close(): Promise<void>;
}

export interface Task {
  /** Process key: `<source id>/<deployment id>/run<slot>` or `…/hook`; a fresh process is used once when absent. */
  process?: string;
  /** Who the code belongs to, and the private networks (CIDRs) that it may reach; absent for the platform's own. */
  owner?: { id: string; allowNetworks: readonly string[] };
  bundle: Bundle;
  /** Sha256 of the bundle: names its files on disk. */
  bundleId: string;
  instance?: Instance;
  call:
    | { kind: 'define' }
    | { kind: 'run'; trigger: RunTrigger; emitTrigger: boolean }
    | { kind: 'hook'; hook: HookName };
}

export interface Host {
  emit(emit: Emit): void;
  /** An emit or db.set that could not be done (not serialisable, too large): goes to $errors and $logs. */
  fault(error: ThrownError): void;
  log(line: LogLine): void;
  /** Base64 body; status is an integer in 100–599. At most once. */
  respond(reply: Respond): void;
  /**
   * Gives the revision of the map after the change, so that a process whose own sets are all that changed need not
   * be sent the map again.
   */
  dbSet(key: string, json: string | undefined): number;
}

/** `cpuMs` is what the kernel counted, with what the process used since its last call. */
export type Result = { durationMs: number; cpuMs: number } & (
  | { ok: true /** Of `define`. */; definition?: Definition }
  | {
      ok: false;
      error: ThrownError;
      /**
       * thrown: by the code · load: it could not be loaded or defines no component · limit: too many threads or files ·
       * the rest: other limits and crashes.
       */
      reason: 'thrown' | 'load' | 'timeout' | 'memory' | 'limit' | 'crash' | 'protocol' | 'aborted';
    }
);

export interface Packager {
  /**
   * Compiles code (ESM, CommonJS, TypeScript) to a bundle and resolves its packages. Scripts of packages never run.
   * @param ownerId the owner of the component, whose share of compilations and installations it uses
   * @throws Problem 400 `invalid_component`: it does not parse, or names a package that cannot be used; 503: the
   * registry does not answer
   */
  bundle(code: ComponentCode, options: { ownerId: string }): Promise<{ id: string; bundle: Bundle }>;
}

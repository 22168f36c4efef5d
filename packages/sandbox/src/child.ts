import type { ThrownError } from '@wellspring/component/program/program-types';
import type { Clock } from '@wellspring/core/clock';
import type { Budget } from './budget.ts';
import type { FrameBlocks } from './frame-blocks.ts';
import type { FrameParser } from './frame-parser.ts';
import type { CallOptions, Host, IdleUsage, Result, Room } from './port.ts';
import type { ProcessDirectory } from './process-directories.ts';
import type { CallFrame } from './protocol.ts';
import type { SpawnedProcess } from './spawner/spawner.ts';
import type { Tier } from './tiers/tier.ts';
import type { Turns } from './turns.ts';

/** Why a call failed. */
export type Reason = Extract<Result, { ok: false }>['reason'];

const NAMES: Record<string, string> = {
  timeout: 'TimeoutError',
  memory: 'MemoryError',
  limit: 'LimitError',
  crash: 'CrashError',
  protocol: 'ProtocolError',
  aborted: 'AbortError',
};

export const errorOf = (reason: Reason, message: string): ThrownError => ({
  name: NAMES[reason] ?? 'Error',
  message,
  stack: '',
});

/** An operating-system process for user code. It executes one call at a time; further calls wait inside it, in order. */
export interface Child {
  /** Resolves when it accepts calls. @throws Error if it ended before */
  ready: Promise<void>;
  /** @param done gets undefined if the process ended before it began the call: another process may execute it */
  call(frame: CallFrame, host: Host, options: CallOptions, done: (result: Result | undefined) => void): void;
  /** False: it has ended, or must not be used again. */
  readonly usable: boolean;
  /** Owner of its code: owners share the time in which the platform reads frames. */
  owner: string;
  /** Reads its processor time, so that what it uses between calls is known if it ends. */
  sample(): void;
  /**
   * Kills the process if it exceeds a resource limit, and measures its memory.
   * @param isQuick see ChildUsage.findExcess
   */
  check(isQuick?: boolean): Promise<void>;
  /**
   * Stops the process until its next call, so that it uses no processor time.
   * @returns whether it is stopped: false during a call, and if the platform must not signal it
   */
  freeze(): boolean;
  /** See SharedProcess. */
  hold(): boolean;
  letGo(): void;
  cpuMs(ofAllThreads: boolean): number | undefined;
  /** See ChildUsage. */
  readonly memoryBytes: number | undefined;
  /** Kills the process for a reason outside of its code; the current call fails with this reason. */
  kill(reason: Reason, message: string): void;
  ended: Promise<ChildEnd>;
}

export interface ChildEnd extends IdleUsage {
  /** Its code made it end, or exceeded a limit. */
  isFault: boolean;
}

/** A call that has not ended. */
export interface UnfinishedCall {
  host: Host;
  timeoutMs: number;
  room: Room | undefined;
  onBegin: CallOptions['onBegin'];
  kind: CallFrame['call']['kind'];
  /** `performance.now()` at which it began; 0: it waits. */
  began: number;
  budget: Budget;
  aborted: boolean;
  end(result: Result | undefined): void;
}

export interface ChildOptions {
  spawned: SpawnedProcess;
  tier: Tier;
  directory: ProcessDirectory;
  clock: Clock;
  turns: Turns;
  parser: FrameParser;
  blocks: FrameBlocks;
}

/** How to start a process. Descriptors: 1 and 2 output, 3 frames, 4 `input`. */
export interface Command {
  file: string;
  args: string[];
  cwd: string;
  env: Record<string, string>;
  uid?: number;
  gid?: number;
  /** File that is opened for the process to read. */
  input?: string;
  /** How it is killed: SIGKILL to it and its descendants, or one signal to the process only. */
  killMethod: 'tree' | 'SIGTERM' | 'SIGKILL';
}

/** From the platform to the spawner. */
export type Order = { type: 'spawn'; id: number; command: Command } | { type: 'kill'; id: number };

/** From the spawner to the platform. */
export type Report =
  | { type: 'listening' }
  | { type: 'started'; id: number; pid: number }
  | { type: 'failed'; id: number; message: string }
  | { type: 'exited'; id: number; exitCode: number | null; signal: NodeJS.Signals | null };

/**
 * Descriptors 1, 2 and 3 of a process: connections from the platform to the spawner, which begin with `streamHeader`. The
 * platform writes nothing more until the process was started.
 */
export const STREAMS = ['stdout', 'stderr', 'frames'] as const;
export type StreamName = (typeof STREAMS)[number];
export const streamHeader = (token: string, id: number, name: StreamName) => `${token} ${id} ${name}\n`;

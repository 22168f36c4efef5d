import type { Instance, RunTrigger, ThrownError } from '@wellspring/component/program/program-types';
import type { Definition, HookName } from '@wellspring/contract/definition';

/**
 * Frames between the supervisor and a child, over a descriptor of their own: length (u32 LE, of what follows), type
 * (u8), content. The content is JSON, except for an emit, whose payload is not wrapped: length of the JSON (u32 LE),
 * JSON, payload. No frame carries an identity: the descriptor that it arrives on says whose it is.
 */

export const FRAME = {
  call: 1,
  ready: 10,
  emit: 11,
  fault: 12,
  log: 13,
  respond: 14,
  dbSet: 15,
  end: 16,
  spoiled: 17,
} as const;
export type FrameType = (typeof FRAME)[keyof typeof FRAME];

/** Last argument of a child that loads what most code needs before it says that it is ready. */
export const WARM = 'warm';

/** Length and type. */
export const HEADER_BYTES = 5;

/** To the child: all that one call needs. */
export interface CallFrame {
  /** The first call of a process names the code. */
  load?: { path: string; format: 'esm' | 'cjs' };
  /** When it differs from what the process has. */
  instance?: Instance;
  /** The map of `$service.db`, when somebody else changed it. */
  db?: Record<string, string>;
  call:
    | { kind: 'define' }
    | { kind: 'run'; trigger: RunTrigger; emitTrigger: boolean }
    | { kind: 'hook'; hook: HookName };
}

/** From the child: the call is over. */
export interface EndFrame {
  ok: boolean;
  definition?: Definition;
  error?: ThrownError;
  reason?: 'thrown' | 'load';
}

export interface DbSetFrame {
  key: string;
  json: string | null;
}

export function encodeFrame(type: FrameType, content: unknown): Buffer {
  const json = JSON.stringify(content);
  const frame = Buffer.allocUnsafe(HEADER_BYTES + Buffer.byteLength(json));
  frame.writeUInt32LE(frame.length - 4, 0);
  frame[4] = type;
  frame.write(json, HEADER_BYTES);
  return frame;
}

/** A child broke the protocol: its process is ended. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}

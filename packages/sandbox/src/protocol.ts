import type {
  ActionCall,
  Instance,
  RunTrigger,
  ThrownError,
} from '@wellspring/component/program/program-types';
import type {
  Definition,
  HookName,
  OptionsAnswer,
  OptionsRequest,
  PropDescriptor,
} from '@wellspring/contract/definition';

/**
 * Frames between the supervisor and a child, over a separate descriptor: length of type and content (u32 LE), type
 * (u8), content. The content is JSON; that of an emit, export or send is length of the JSON (u32 LE), JSON, payload. No frame contains
 * an identity: the connection identifies the process.
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
  export: 18,
  send: 19,
} as const;
export type FrameType = (typeof FRAME)[keyof typeof FRAME];

/** Last argument of a child that preloads common modules before it reports that it is ready. */
export const PRELOAD = 'preload';

/** Names a file with further certificate authorities, which Node reads when it starts; user code does not see it. */
export const CA_VARIABLE = 'NODE_EXTRA_CA_CERTS';

/** Length and type. */
export const HEADER_BYTES = 5;

/** To the child: one call. */
export interface CallFrame {
  /** The code; in the first call of a process. */
  load?: { path: string; format: 'esm' | 'cjs' };
  /** If the process does not have it. */
  instance?: Instance;
  /** The map of `$service.db`, if another process changed it. */
  db?: Record<string, string>;
  call:
    | { kind: 'define' }
    | { kind: 'run'; trigger: RunTrigger; emitTrigger: boolean }
    | { kind: 'hook'; hook: HookName }
    | { kind: 'action'; action: ActionCall }
    | ({ kind: 'options'; prop: string } & OptionsRequest)
    | { kind: 'props' };
}

/** From the child: the end of a call. */
export interface EndFrame {
  ok: boolean;
  definition?: Definition;
  options?: OptionsAnswer;
  props?: PropDescriptor[];
  exit?: boolean;
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

/** A child violated the protocol: its process is killed. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}

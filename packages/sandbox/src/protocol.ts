import type {
  Emit,
  Instance,
  LogLine,
  Respond,
  RunTrigger,
  ThrownError,
} from '@wellspring/component/child/program-types';
import type { Definition, HookName } from '@wellspring/contract/definition';

/**
 * Frames between the supervisor and a child, over a descriptor of their own: length (u32 LE, of what follows), type
 * (u8), content. The content is JSON, but for an emit, whose payload stays the bytes that it is: length of the JSON
 * (u32 LE), JSON, payload.
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

export type EmitHead = Omit<Emit, 'payload'>;

/** From the child: the call is over. */
export interface EndFrame {
  cpuMs: number;
  ok: boolean;
  definition?: Definition;
  error?: ThrownError;
  reason?: 'thrown' | 'load';
}

export interface DbSetFrame {
  key: string;
  json: string | null;
}

export type { Emit, LogLine, Respond, ThrownError };

export function encodeFrame(type: FrameType, content: unknown): Buffer {
  const json = JSON.stringify(content);
  const frame = Buffer.allocUnsafe(5 + Buffer.byteLength(json));
  frame.writeUInt32LE(frame.length - 4, 0);
  frame[4] = type;
  frame.write(json, 5);
  return frame;
}

/** A child broke the protocol: it is not ours any more. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}

/**
 * Cuts a stream of bytes into frames.
 * @param largest bytes of a frame; a longer one is refused before it is buffered
 * @throws ProtocolError
 */
export function createFrameReader(
  largest: number,
  onFrame: (type: number, content: Buffer) => void,
): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  let chunks: Buffer[] = [];
  let have = 0;
  let need = 5;

  return (chunk) => {
    chunks.push(chunk);
    have += chunk.length;
    if (have < need) return;
    rest = chunks.length === 1 ? chunk : Buffer.concat(chunks);
    let at = 0;
    for (;;) {
      need = 5;
      if (rest.length - at < need) break;
      const length = rest.readUInt32LE(at);
      if (length < 1 || length > largest) throw new ProtocolError(`a frame of ${length} bytes`);
      need = 4 + length;
      if (rest.length - at < need) break;
      onFrame(rest[at + 4]!, rest.subarray(at + 5, at + need));
      at += need;
    }
    rest = rest.subarray(at);
    chunks = rest.length > 0 ? [rest] : [];
    have = rest.length;
  };
}

import type {
  ActionCall,
  Emit,
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
 * (u8), content. The content is JSON; that of a call, emit, export or send is length of the JSON (u32 LE), JSON, payload,
 * and that of a dbSet length of the JSON of the key, this JSON, JSON of the value (empty: the key is deleted). A payload
 * is JSON, too: as a part of the other JSON it would be escaped. No frame contains an identity: the connection identifies
 * the process.
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

// Captured before user code, which may replace them, is loaded.
const { parse } = JSON;
const { write } = Buffer.prototype;

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
export type EndFrame =
  | { ok: true; definition?: Definition; options?: OptionsAnswer; props?: PropDescriptor[]; exit?: boolean }
  | { ok: false; error: ThrownError; reason: 'thrown' | 'load' };

/** The JSON of an emit. Fields that are null, and an empty name, are left out. */
export type EmitHead = Pick<Emit, 'at'> & Partial<Omit<Emit, 'payload'>>;

const writeText = (target: Buffer, text: string, at: number): number => write.call(target, text, at);

function putLength(target: Buffer, at: number, value: number): void {
  target[at] = value;
  target[at + 1] = value >>> 8;
  target[at + 2] = value >>> 16;
  target[at + 3] = value >>> 24;
}

/**
 * Writes a frame into `target`, which has room for it.
 * @param payload undefined: the head is the whole content
 * @returns the position behind the frame
 */
export function putFrame(
  target: Buffer,
  start: number,
  type: FrameType,
  head: string,
  payload: string | undefined,
): number {
  let at = start + HEADER_BYTES;
  if (payload !== undefined) at += 4;
  const headBytes = writeText(target, head, at);
  if (payload !== undefined) putLength(target, at - 4, headBytes);
  at += headBytes;
  if (payload !== undefined) at += writeText(target, payload, at);
  putLength(target, start, at - start - 4);
  target[start + 4] = type;
  return at;
}

/** The payload is the event of the call, if it has one. */
export function encodeCall(frame: CallFrame): Buffer {
  const { call } = frame;
  let event = '';
  let head: unknown = frame;
  if (call.kind === 'run' && call.trigger.kind === 'value') {
    event = call.trigger.json;
    head = { ...frame, call: { ...call, trigger: { kind: 'value', json: '' } } };
  }
  const json = JSON.stringify(head);
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + 4 + Buffer.byteLength(json) + Buffer.byteLength(event));
  putFrame(bytes, 0, FRAME.call, json, event);
  return bytes;
}

/** The content of a frame of `encodeCall`. */
export function decodeCall(content: Buffer): CallFrame {
  const end = 4 + content.readUInt32LE(0);
  const frame = parse(content.toString('utf8', 4, end)) as CallFrame;
  const { call } = frame;
  if (call.kind === 'run' && call.trigger.kind === 'value') call.trigger.json = content.toString('utf8', end);
  return frame;
}

/** A child violated the protocol: its process is killed. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}

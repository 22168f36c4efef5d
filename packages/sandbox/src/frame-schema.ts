import type {
  Emit,
  LogLine,
  Respond,
  SendKind,
  ThrownError,
} from '@wellspring/component/program/program-types';
import { isReservedChannel } from '@wellspring/contract/channels';
import { LIMITS } from '@wellspring/contract/limits';
import { isTooDeep } from '@wellspring/core/json-depth';
import { truncateUtf8 } from '@wellspring/core/truncate';
import { readDefinition, readOptions, readProps } from './definition-schema.ts';
import { expectField, type Fields, isNumber, isText } from './frame-fields.ts';
import { type CallFrame, type EmitHead, type EndFrame, FRAME, ProtocolError } from './protocol.ts';

/**
 * Reads frames of a child, which are hostile input: each frame type has a schema, and only the fields of the schema are
 * kept. Pure: it runs on the main thread for small frames and in a worker thread for large ones, so results are plain
 * data.
 */

export type ChildMessage =
  | { type: 'ready' }
  /** The code had an uncaught error: the process must not be used for another call. */
  | { type: 'spoiled' }
  | { type: 'emit'; emit: Emit }
  | { type: 'fault'; error: ThrownError }
  | { type: 'log'; line: LogLine }
  | { type: 'respond'; reply: Respond }
  | { type: 'dbSet'; key: string; json: string | undefined }
  | { type: 'export'; name: string; json: string }
  | { type: 'send'; kind: SendKind; request: string }
  | { type: 'end'; end: EndFrame };

const KB = 1024;
const MAX_EMIT_HEAD_BYTES = 32 * KB;
const MAX_CLASS_NAME_CHARS = 256;
const MAX_HEADER_BYTES = 64 * KB;

/** Maximum content bytes by type. JSON needs up to six bytes per character, and escapes nested quotes twice. */
const MAX_BYTES: Record<number, number> = {
  [FRAME.ready]: 16,
  [FRAME.spoiled]: 16,
  [FRAME.log]: 128 * KB,
  [FRAME.fault]: 384 * KB,
  [FRAME.dbSet]: 3 * LIMITS.db,
  [FRAME.respond]: LIMITS.emit + MAX_HEADER_BYTES,
  [FRAME.emit]: LIMITS.emit + MAX_EMIT_HEAD_BYTES + 4,
  [FRAME.export]: LIMITS.stepData + 4 * KB,
  [FRAME.send]: LIMITS.stepData + KB,
  // The end of a run contains at most an error.
  [FRAME.end]: 384 * KB,
};

/** Calls whose answer is data of the component. */
const LARGE_CALLS: ReadonlySet<CallFrame['call']['kind']> = new Set(['define', 'options', 'props']);

/**
 * Maximum content bytes of a frame; undefined if a child does not send this type.
 * @param call in progress, if any
 */
export const maxFrameBytes = (
  type: number,
  call: CallFrame['call']['kind'] | undefined,
): number | undefined =>
  type === FRAME.end && call !== undefined && LARGE_CALLS.has(call)
    ? LIMITS.definitionBytes + KB
    : MAX_BYTES[type];

function parse(text: string): unknown {
  if (isTooDeep(text)) throw new ProtocolError('a frame that is nested too deeply');
  try {
    return JSON.parse(text);
  } catch {
    throw new ProtocolError('a frame that is not JSON');
  }
}

function object(bytes: Buffer, start = 0, end = bytes.length): Fields {
  const value = parse(bytes.toString('utf8', start, end));
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new ProtocolError('a frame without fields');
  return value as Fields;
}

/** The end of most runs. */
const END_OK = Buffer.from('{"ok":true}');

/** @throws ProtocolError */
export function readFrame(type: number, content: Buffer): ChildMessage {
  switch (type) {
    case FRAME.ready:
      return { type: 'ready' };
    case FRAME.spoiled:
      return { type: 'spoiled' };
    case FRAME.emit:
      return { type: 'emit', emit: readEmit(content) };
    case FRAME.fault:
      return { type: 'fault', error: readError(object(content)) };
    case FRAME.log:
      return { type: 'log', line: readLog(object(content)) };
    case FRAME.respond:
      return { type: 'respond', reply: readRespond(object(content)) };
    case FRAME.dbSet:
      return { type: 'dbSet', ...readDbSet(content) };
    case FRAME.export:
      return { type: 'export', ...readExport(content) };
    case FRAME.send:
      return { type: 'send', ...readSend(content) };
    case FRAME.end:
      return { type: 'end', end: END_OK.equals(content) ? { ok: true } : readEnd(object(content)) };
    default:
      throw new ProtocolError(`a frame of type ${type}`);
  }
}

/** Whether it is a text of at most this number of bytes in UTF-8. */
const isShortText = (value: unknown, maxBytes: number) =>
  isText(value) && Buffer.byteLength(value) <= maxBytes;

/** Of emits, exports and sends: a JSON object with its length before it, then a payload. */
function readHead(content: Buffer): { head: Fields; payload: string } {
  const end = endOfHead(content);
  if (end - 4 > MAX_EMIT_HEAD_BYTES) throw new ProtocolError('an emit with a long head');
  return { head: object(content, 4, end), payload: content.toString('utf8', end) };
}

/** The position of the payload. */
function endOfHead(content: Buffer): number {
  const end = content.length < 4 ? Number.POSITIVE_INFINITY : 4 + content.readUInt32LE(0);
  if (end > content.length) throw new ProtocolError('a frame that is too short');
  return end;
}

function readEmit(content: Buffer): Emit {
  const { head, payload } = readHead(content);
  const {
    id = null,
    name = '',
    summary = null,
    ts = null,
    at,
    delivery_ts = null,
    sse,
  } = head as unknown as EmitHead;
  expectField('id', id === null || isNumber(id) || isShortText(id, LIMITS.emitId));
  expectField('name', isShortText(name, LIMITS.eventName));
  expectField('summary', summary === null || isText(summary));
  expectField('ts', ts === null || isNumber(ts));
  expectField('at', isNumber(at));
  expectField('delivery_ts', delivery_ts === null || isNumber(delivery_ts));
  if (isReservedChannel(name)) throw new ProtocolError('an emit on a reserved channel');
  if (sse === true && /[\n\r]/.test(name)) throw new ProtocolError('a channel of more than one line');
  const emit: Emit = {
    payload: readPayload(payload),
    id,
    name,
    summary: summary === null ? null : truncateUtf8(summary, LIMITS.summaryBytes),
    ts,
    at,
    delivery_ts,
  };
  if (sse === true) emit.sse = true;
  return emit;
}

function readExport(content: Buffer): { name: string; json: string } {
  const { head, payload } = readHead(content);
  const { name } = head;
  if (!isText(name) || name === '' || Buffer.byteLength(name) > LIMITS.eventName)
    throw new ProtocolError('an export with a bad name');
  return { name, json: readPayload(payload) };
}

const SEND_KINDS: readonly unknown[] = ['http', 'email', 's3'] satisfies SendKind[];

function readSend(content: Buffer): { kind: SendKind; request: string } {
  const { head, payload } = readHead(content);
  if (!SEND_KINDS.includes(head.kind)) throw new ProtocolError('a send of an unknown kind');
  return { kind: head.kind as SendKind, request: readPayload(payload) };
}

/** The text is passed on unparsed, inside larger JSON texts and as one line of a stream: it must be valid for both. */
function readPayload(payload: string): string {
  if (Buffer.byteLength(payload) > LIMITS.emit) throw new ProtocolError('an emit that is too large');
  if (isTooDeep(payload)) throw new ProtocolError('an emit that is nested too deeply');
  try {
    JSON.parse(payload);
  } catch {
    throw new ProtocolError('an emit that is not JSON');
  }
  // JSON strings contain no line breaks, so these are white space.
  return /[\n\r]/.test(payload) ? payload.replace(/[\n\r]/g, ' ') : payload;
}

function readError(value: unknown): ThrownError {
  const { name, message, stack, cause } = (
    typeof value === 'object' && value !== null ? value : {}
  ) as Fields;
  const text = (field: unknown) => (isText(field) ? field.slice(0, LIMITS.logLine) : '');
  return {
    name: text(name).slice(0, MAX_CLASS_NAME_CHARS) || 'Error',
    message: text(message),
    stack: text(stack),
    ...(isText(cause) ? { cause: text(cause) } : {}),
  };
}

const LEVELS = new Set<unknown>(['debug', 'info', 'warn', 'error']);

function readLog({ ts, level, msg }: Fields): LogLine {
  if (!isNumber(ts) || !LEVELS.has(level) || !isText(msg)) throw new ProtocolError('a bad log line');
  return { ts, level: level as LogLine['level'], msg: truncateUtf8(msg, LIMITS.logLine) };
}

function readRespond({ status, headers, body, immediate }: Fields): Respond {
  const isValid = Number.isInteger(status) && (status as number) >= 100 && (status as number) <= 599;
  if (!isValid || !isText(body)) throw new ProtocolError('a bad response');
  return {
    status: status as number,
    headers: readHeaders(headers),
    body,
    ...(immediate === true && { immediate }),
  };
}

function readHeaders(value: unknown): Respond['headers'] {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new ProtocolError('a response with bad headers');
  const headers: Respond['headers'] = {};
  let count = 0;
  let bytes = 0;
  for (const [name, given] of Object.entries(value)) {
    if (name === '__proto__') continue;
    const values: unknown[] = Array.isArray(given) ? given : [given];
    // A name without values uses memory, too.
    const lines = Math.max(1, values.length);
    count += lines;
    if (count > LIMITS.replyHeaders) throw new ProtocolError('a response with too many headers');
    bytes += lines * name.length;
    for (const one of values) {
      if (!isText(one)) throw new ProtocolError('a response with bad headers');
      bytes += one.length;
    }
    if (bytes > MAX_HEADER_BYTES) throw new ProtocolError('a response with too large headers');
    headers[name] = given as string | string[];
  }
  return headers;
}

/** @returns json undefined: the key is deleted */
function readDbSet(content: Buffer): { key: string; json: string | undefined } {
  const end = endOfHead(content);
  // Also with lone surrogates, which UTF-8 cannot hold.
  const key = parse(content.toString('utf8', 4, end));
  if (!isText(key)) throw new ProtocolError('a db entry without a key');
  if (end === content.length) return { key, json: undefined };
  const json = content.toString('utf8', end);
  parse(json);
  return { key, json };
}

function readEnd({ ok, error, reason, definition, options, props, exit }: Fields): EndFrame {
  if (ok !== true)
    return { ok: false, error: readError(error), reason: reason === 'load' ? 'load' : 'thrown' };
  const end: EndFrame = { ok: true };
  if (definition !== undefined) end.definition = readDefinition(definition);
  if (options !== undefined) end.options = readOptions(options);
  if (props !== undefined) end.props = readProps(props);
  if (exit === true) end.exit = exit;
  return end;
}

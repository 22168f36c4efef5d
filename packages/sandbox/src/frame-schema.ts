import type { Emit, LogLine, Respond, ThrownError } from '@wellspring/component/program/program-types';
import type { Definition, PropDescriptor } from '@wellspring/contract/definition';
import {
  COMPONENT_TYPES,
  DEDUPE_STRATEGIES,
  HOOKS,
  hasTooManyInterfaces,
  isKey,
  MAX_NAME_CHARS,
  MAX_VERSION_CHARS,
  PROP_FIELDS,
} from '@wellspring/contract/definition-rules';
import { LIMITS } from '@wellspring/contract/limits';
import { isTooDeep } from '@wellspring/core/json-depth';
import { truncateUtf8 } from '@wellspring/core/truncate';
import { type DbSetFrame, type EndFrame, FRAME, ProtocolError } from './protocol.ts';

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
  | { type: 'dbSet'; set: DbSetFrame }
  | { type: 'end'; end: EndFrame };

const KB = 1024;
const MAX_EMIT_HEAD_BYTES = 32 * KB;
const MAX_CLASS_NAME_CHARS = 256;
const MAX_HEADERS = 256;
const MAX_HEADER_BYTES = 64 * KB;
/** Objects, arrays, strings and numbers within a definition: each costs the main thread time. */
const MAX_DEFINITION_VALUES = 20_000;

/** Maximum content bytes by type. JSON needs up to six bytes per character, and escapes nested quotes twice. */
const MAX_BYTES: Record<number, number> = {
  [FRAME.ready]: 16,
  [FRAME.spoiled]: 16,
  [FRAME.log]: 128 * KB,
  [FRAME.fault]: 320 * KB,
  [FRAME.dbSet]: 3 * LIMITS.db,
  [FRAME.respond]: LIMITS.emit + MAX_HEADER_BYTES,
  [FRAME.emit]: LIMITS.emit + MAX_EMIT_HEAD_BYTES + 4,
  // The end of a run contains at most an error.
  [FRAME.end]: 320 * KB,
};
const MAX_DEFINITION_BYTES = 2048 * KB;

/** Maximum content bytes of a frame; undefined: a child does not send this type. */
export const maxFrameBytes = (type: number, isDefine: boolean): number | undefined =>
  type === FRAME.end && isDefine ? MAX_DEFINITION_BYTES : MAX_BYTES[type];

type Fields = Record<string, unknown>;

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ProtocolError('a frame that is not JSON');
  }
}

function object(bytes: Buffer): Fields {
  const text = bytes.toString('utf8');
  if (isTooDeep(text)) throw new ProtocolError('a frame that is nested too deeply');
  const value = parse(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new ProtocolError('a frame without fields');
  return value as Fields;
}

const isText = (value: unknown): value is string => typeof value === 'string';
const nullable = (check: (value: unknown) => boolean) => (value: unknown) => value === null || check(value);
const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value);
const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean';

function expect(fields: Fields, checks: Record<string, (value: unknown) => boolean>): void {
  for (const name in checks) {
    if (!checks[name]!(fields[name])) throw new ProtocolError(`a frame with a bad ${name}`);
  }
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
      return { type: 'dbSet', set: readDbSet(object(content)) };
    case FRAME.end:
      return { type: 'end', end: END_OK.equals(content) ? { ok: true } : readEnd(object(content)) };
    default:
      throw new ProtocolError(`a frame of type ${type}`);
  }
}

const EMIT_HEAD = {
  id: nullable((value) => isNumber(value) || (isText(value) && Buffer.byteLength(value) <= LIMITS.emitId)),
  name: (value: unknown) => isText(value) && Buffer.byteLength(value) <= LIMITS.eventName,
  summary: nullable(isText),
  ts: nullable(isNumber),
  at: isNumber,
  delivery_ts: nullable(isNumber),
};

function readEmit(content: Buffer): Emit {
  if (content.length < 4) throw new ProtocolError('a short emit');
  const headBytes = content.readUInt32LE(0);
  if (headBytes > content.length - 4) throw new ProtocolError('a short emit');
  if (headBytes > MAX_EMIT_HEAD_BYTES) throw new ProtocolError('an emit with a long head');
  const head = object(content.subarray(4, 4 + headBytes));
  expect(head, EMIT_HEAD);
  const { id, name, summary, ts, at, delivery_ts } = head as unknown as Emit;
  return {
    payload: readPayload(content.toString('utf8', 4 + headBytes)),
    id,
    name,
    summary: summary === null ? null : truncateUtf8(summary, LIMITS.summaryBytes),
    ts,
    at,
    delivery_ts,
  };
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
  const { name, message, stack } = (typeof value === 'object' && value !== null ? value : {}) as Fields;
  const text = (field: unknown) => (isText(field) ? field.slice(0, LIMITS.logLine) : '');
  return {
    name: text(name).slice(0, MAX_CLASS_NAME_CHARS) || 'Error',
    message: text(message),
    stack: text(stack),
  };
}

const LEVELS = new Set<unknown>(['debug', 'info', 'warn', 'error']);

function readLog({ ts, level, msg }: Fields): LogLine {
  if (!isNumber(ts) || !LEVELS.has(level) || !isText(msg)) throw new ProtocolError('a bad log line');
  return { ts, level: level as LogLine['level'], msg: truncateUtf8(msg, LIMITS.logLine) };
}

function readRespond({ status, headers, body }: Fields): Respond {
  const isValid = Number.isInteger(status) && (status as number) >= 100 && (status as number) <= 599;
  if (!isValid || !isText(body)) throw new ProtocolError('a bad response');
  return { status: status as number, headers: readHeaders(headers), body };
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
    count += values.length;
    if (count > MAX_HEADERS) throw new ProtocolError('a response with too many headers');
    for (const one of values) {
      if (!isText(one)) throw new ProtocolError('a response with bad headers');
      bytes += name.length + one.length;
    }
    headers[name] = given as string | string[];
  }
  if (bytes > MAX_HEADER_BYTES) throw new ProtocolError('a response with too large headers');
  return headers;
}

function readDbSet({ key, json }: Fields): DbSetFrame {
  if (!isText(key) || !(json === null || isText(json))) throw new ProtocolError('a bad db entry');
  if (json !== null) {
    if (isTooDeep(json)) throw new ProtocolError('a db entry that is nested too deeply');
    parse(json);
  }
  return { key, json };
}

function readEnd({ ok, error, reason, definition }: Fields): EndFrame {
  if (ok !== true)
    return { ok: false, error: readError(error), reason: reason === 'load' ? 'load' : 'thrown' };
  return definition === undefined ? { ok: true } : { ok: true, definition: readDefinition(definition) };
}

const isOneOf = (values: readonly unknown[]) => (value: unknown) => values.includes(value);
const DEFINITION = {
  name: (name: unknown) => isText(name) && name !== '' && name.length <= MAX_NAME_CHARS,
  key: nullable(isKey),
  version: (version: unknown) => isText(version) && version.length <= MAX_VERSION_CHARS,
  type: isOneOf(COMPONENT_TYPES),
  description: nullable(isText),
  props: (props: unknown) => Array.isArray(props) && props.length <= LIMITS.props,
  hooks: (hooks: unknown) =>
    Array.isArray(hooks) && hooks.length <= HOOKS.length && hooks.every(isOneOf(HOOKS)),
  dedupe: nullable(isOneOf(DEDUPE_STRATEGIES)),
  has_run: isBoolean,
  additional_props: isBoolean,
};

/** Checks types, not the content of texts. */
function readDefinition(value: unknown): Definition {
  const fields = (typeof value === 'object' && value !== null ? value : {}) as Fields;
  expect(fields, DEFINITION);
  const { name, key, version, type, description, hooks, dedupe, has_run, additional_props } =
    fields as unknown as Definition;
  const copy = createPlainCopy(MAX_DEFINITION_VALUES);
  const props = (fields.props as unknown[]).map((prop) => readDescriptor(prop, copy));
  if (hasTooManyInterfaces(props)) throw new ProtocolError('a frame with a bad props');
  return { name, key, version, type, description, props, hooks, dedupe, has_run, additional_props };
}

function readDescriptor(value: unknown, copy: (value: unknown) => unknown): PropDescriptor {
  const fields = (typeof value === 'object' && value !== null ? value : {}) as Fields;
  const { name, type } = fields;
  if (!isText(name) || !isText(type)) throw new ProtocolError('a frame with a bad props');
  const descriptor: Fields = { name, type };
  const take = (names: readonly string[], check: (field: unknown) => boolean) => {
    for (const field of names) {
      if (!Object.hasOwn(fields, field)) continue;
      if (!check(fields[field])) throw new ProtocolError('a frame with a bad props');
      descriptor[field] = copy(fields[field]);
    }
  };
  take([...PROP_FIELDS.texts, 'app'], isText);
  take(PROP_FIELDS.flags, isBoolean);
  take(PROP_FIELDS.numbers, isNumber);
  take([...PROP_FIELDS.values, 'options'], () => true);
  return descriptor as unknown as PropDescriptor;
}

/** Copies JSON values without keys named `__proto__`. @throws ProtocolError beyond `maxValues` in total */
function createPlainCopy(maxValues: number): (value: unknown) => unknown {
  let count = 0;
  return function copy(value: unknown): unknown {
    count += 1;
    if (count > maxValues) throw new ProtocolError('a definition with too many values');
    if (Array.isArray(value)) return value.map(copy);
    if (typeof value !== 'object' || value === null) return value;
    const plain: Fields = {};
    for (const [key, field] of Object.entries(value)) if (key !== '__proto__') plain[key] = copy(field);
    return plain;
  };
}

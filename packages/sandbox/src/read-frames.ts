import { hasTooManyInterfaces } from '@wellspring/component/child/define';
import type { Definition } from '@wellspring/contract/definition';
import { LIMITS } from '@wellspring/contract/limits';
import { isTooDeep } from '@wellspring/core/json-depth';
import { truncateUtf8 } from '@wellspring/core/truncate';
import type { Host } from './port.ts';
import type { EndFrame } from './protocol.ts';
import { FRAME, ProtocolError } from './protocol.ts';

/** Reads what a child says. All of it is hostile: every field is checked before anybody else sees it. */

type Fields = Record<string, unknown>;

export type ChildSays =
  | { type: 'ready' }
  /** Something escaped from the code: the process is not to be used for another call. */
  | { type: 'spoiled' }
  | { type: 'end'; end: EndFrame }
  /** Something for the host of the call. */
  | { type: 'act'; emit: boolean; apply(host: Host): void };

/** Bytes of a frame, by type; what has no limit here has that of all frames. It is parsed where everybody waits. */
const LARGEST: Partial<Record<number, number>> = {
  [FRAME.ready]: 16,
  [FRAME.spoiled]: 16,
  [FRAME.log]: 256 * 1024,
  [FRAME.fault]: 2 * 1024 * 1024,
  [FRAME.dbSet]: 16 * LIMITS.db,
  [FRAME.end]: 2 * 1024 * 1024,
};
const LARGEST_HEAD = 64 * 1024;
const SUMMARY_BYTES = 1024;

function parse(bytes: Buffer, reviver?: (key: string, value: unknown) => unknown): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'), reviver);
  } catch {
    throw new ProtocolError('a frame that is no JSON');
  }
}

function object(bytes: Buffer, reviver?: Parameters<typeof parse>[1]): Fields {
  const value = parse(bytes, reviver);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new ProtocolError('a frame without fields');
  return value as Fields;
}

const isText = (value: unknown): value is string => typeof value === 'string';
const nullable = (check: (value: unknown) => boolean) => (value: unknown) => value === null || check(value);
const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value);

function expect(fields: Fields, checks: Record<string, (value: unknown) => boolean>): void {
  for (const [name, check] of Object.entries(checks)) {
    if (!check(fields[name])) throw new ProtocolError(`a frame with a bad ${name}`);
  }
}

const LEVELS = new Set(['debug', 'info', 'warn', 'error']);

const thrown = (value: unknown) => {
  const { name, message, stack } = (value ?? {}) as Fields;
  const text = (field: unknown, fallback: string) => (isText(field) ? field.slice(0, 64 * 1024) : fallback);
  return { name: text(name, 'Error') || 'Error', message: text(message, ''), stack: text(stack, '') };
};

function readEmit(content: Buffer): ChildSays {
  if (content.length < 4) throw new ProtocolError('a short emit');
  const headLength = content.readUInt32LE(0);
  if (headLength > content.length - 4) throw new ProtocolError('a short emit');
  if (headLength > LARGEST_HEAD) throw new ProtocolError('an emit with a long head');
  const head = object(content.subarray(4, 4 + headLength));
  expect(head, {
    id: nullable((value) => isNumber(value) || (isText(value) && Buffer.byteLength(value) <= LIMITS.emitId)),
    name: (value) => isText(value) && Buffer.byteLength(value) <= LIMITS.eventName,
    summary: nullable(isText),
    ts: nullable(isNumber),
    at: isNumber,
    delivery_ts: nullable(isNumber),
  });
  const payload = readPayload(content.toString('utf8', 4 + headLength));
  const { id, name, summary, ts, at, delivery_ts } = head as never;
  return {
    type: 'act',
    emit: true,
    apply: (host) =>
      host.emit({
        payload,
        id,
        name,
        summary: summary && truncateUtf8(summary, SUMMARY_BYTES),
        ts,
        at,
        delivery_ts,
      }),
  };
}

/** It is handed on unparsed, as part of larger JSON texts and as one line of a stream: it has to be fit for both. */
function readPayload(payload: string): string {
  if (Buffer.byteLength(payload) > LIMITS.emit) throw new ProtocolError('an emit that is too large');
  if (isTooDeep(payload)) throw new ProtocolError('an emit that is nested too deeply');
  let value: unknown;
  try {
    value = JSON.parse(payload);
  } catch {
    throw new ProtocolError('an emit that is no JSON');
  }
  return /[\n\r]/.test(payload) ? JSON.stringify(value) : payload;
}

const act = (apply: (host: Host) => void): ChildSays => ({
  type: 'act',
  emit: false,
  apply,
});

/** @throws ProtocolError */
export function readFrame(type: number, content: Buffer): ChildSays {
  const largest = LARGEST[type];
  if (largest !== undefined && content.length > largest)
    throw new ProtocolError(`a frame of type ${type} with ${content.length} bytes`);
  switch (type) {
    case FRAME.ready:
      return { type: 'ready' };
    case FRAME.spoiled:
      return { type: 'spoiled' };
    case FRAME.emit:
      return readEmit(content);
    case FRAME.fault: {
      const error = thrown(object(content));
      return act((host) => host.fault(error));
    }
    case FRAME.log: {
      const { ts, level, msg } = object(content);
      if (!isNumber(ts) || !isText(level) || !LEVELS.has(level) || !isText(msg))
        throw new ProtocolError('a bad log line');
      return act((host) => host.log({ ts, level: level as 'info', msg: truncateUtf8(msg, LIMITS.logLine) }));
    }
    case FRAME.respond: {
      const { status, headers, body } = object(content);
      const valid =
        Number.isInteger(status) &&
        (status as number) >= 100 &&
        (status as number) <= 599 &&
        isText(body) &&
        areHeaders(headers);
      if (!valid) throw new ProtocolError('a bad response');
      return act((host) => host.respond({ status, headers, body } as never));
    }
    case FRAME.dbSet: {
      const { key, json } = object(content);
      if (!isText(key) || !(json === null || isText(json))) throw new ProtocolError('a bad db entry');
      if (json !== null) parse(Buffer.from(json));
      return act((host) => host.dbSet(key, json ?? undefined));
    }
    case FRAME.end:
      // The only frame of which more is kept than fields that are named here.
      return { type: 'end', end: readEnd(object(content, withoutProto)) };
    default:
      throw new ProtocolError(`a frame of type ${type}`);
  }
}

const withoutProto = (key: string, value: unknown) => (key === '__proto__' ? undefined : value);

const areHeaders = (headers: unknown) =>
  typeof headers === 'object' &&
  headers !== null &&
  Object.values(headers).every((value) => isText(value) || (Array.isArray(value) && value.every(isText)));

function readEnd({ ok, cpuMs, error, reason, definition }: Fields): EndFrame {
  return {
    ok: ok === true,
    cpuMs: isNumber(cpuMs) && cpuMs >= 0 ? cpuMs : 0,
    ...(ok === true ? {} : { error: thrown(error), reason: reason === 'load' ? 'load' : 'thrown' }),
    ...(definition === undefined ? {} : { definition: readDefinition(definition) }),
  };
}

/** Shapes are checked; what the texts say is the user's. */
function readDefinition(value: unknown): Definition {
  const fields = (value ?? {}) as Fields;
  const isBoolean = (field: unknown) => typeof field === 'boolean';
  const checks = {
    name: (name: unknown) => isText(name) && name !== '' && name.length <= 1000,
    key: nullable((key) => isText(key) && /^[a-z0-9_-]{1,256}$/.test(key)),
    version: (version: unknown) => isText(version) && version.length <= 256,
    type: (type: unknown) => type === 'source' || type === 'action' || type === 'app',
    description: nullable(isText),
    props: (props: unknown) =>
      Array.isArray(props) &&
      props.length <= LIMITS.props &&
      props.every(isDescriptor) &&
      !hasTooManyInterfaces(props),
    hooks: (hooks: unknown) =>
      Array.isArray(hooks) && hooks.every((hook) => ['deploy', 'activate', 'deactivate'].includes(hook)),
    dedupe: nullable((dedupe) => ['unique', 'greatest', 'last'].includes(dedupe as string)),
    has_run: isBoolean,
    additional_props: isBoolean,
  };
  expect(fields, checks);
  const known = Object.keys(checks).map((name) => [name, fields[name]]);
  return Object.fromEntries(known) as Definition;
}

const isDescriptor = (prop: unknown) => {
  const { name, type, optional, secret, customResponse } = (prop ?? {}) as Fields;
  const flags = [optional, secret, customResponse];
  return (
    isText(name) && isText(type) && flags.every((flag) => flag === undefined || typeof flag === 'boolean')
  );
};

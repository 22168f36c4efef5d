import { LIMITS } from '@wellspring/contract/limits';
import { isTooDeep, MAX_DEPTH } from '@wellspring/core/json-depth';
import { type Fields, isFields } from '../fields.ts';
import { createEmit } from './emitter.ts';
import type { ActionCall, ChildIO, SendKind } from './program-types.ts';
import { isStream, readReply, readStream, type Stream } from './responder.ts';

const MB = 1024 * 1024;

/** JSON text; undefined for what JSON leaves out. @throws Error that names the value */
function serialise(what: string, value: unknown): string | undefined {
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch (error) {
    throw new TypeError(`${what} cannot be serialised as JSON. ${(error as Error)?.message ?? ''}`);
  }
  if (json === undefined) return undefined;
  if (Buffer.byteLength(json) > LIMITS.stepData)
    throw new RangeError(`${what} has more than ${LIMITS.stepData / MB} MB.`);
  if (isTooDeep(json)) throw new RangeError(`${what} is nested more than ${MAX_DEPTH} levels deep.`);
  return json;
}

/** `$` of an action. */
export interface Dollar {
  $: Fields;
  /** `$.flow.exit` was called: the workflow ends after this step. */
  exited(): boolean;
  /** Bodies of responses that were not awaited are read. */
  settled(): Promise<unknown>;
}

function createDollar(call: ActionCall, io: ChildIO): Dollar {
  let exited = false;
  const reading: Promise<unknown>[] = [];
  const read = (stream: Stream) => {
    const bytes = readStream(stream);
    // Its error is that of `respond`.
    reading.push(bytes.catch(() => {}));
    return bytes;
  };
  const emit = createEmit(io);
  const emitSse = createEmit({ ...io, emit: (one) => io.emit({ ...one, sse: true }) });
  const exportValue = (name: unknown, value: unknown): void => {
    const text = String(name);
    if (text === '' || Buffer.byteLength(text) > LIMITS.eventName)
      throw new RangeError(`The name of an export has 1 to ${LIMITS.eventName} bytes.`);
    const json = serialise(`The export ${text}`, value);
    if (json !== undefined) io.export(text, json);
  };
  const send = (kind: SendKind) => (request: unknown) => {
    if (!isFields(request)) throw new TypeError(`$.send.${kind} needs an object.`);
    io.send(kind, serialise(`The argument of $.send.${kind}`, request) ?? '{}');
  };
  const unsupported = (name: string) => () => {
    throw new Error(`$.flow.${name} is not supported: a run of a workflow cannot be suspended.`);
  };
  const $: Fields = {
    context: call.context,
    export: exportValue,
    respond: async (given: unknown) => {
      const { body, immediate } = (isFields(given) ? given : {}) as Fields;
      const reply = readReply({ ...(given as Fields), body: isStream(body) ? await read(body) : body });
      io.respond({ ...reply, ...(immediate === true && { immediate }) });
    },
    flow: {
      exit(reason: unknown) {
        exited = true;
        return reason;
      },
      delay: unsupported('delay'),
      suspend: unsupported('suspend'),
      rerun: unsupported('rerun'),
    },
    send: {
      emit(given: unknown, channel: unknown) {
        // Also {raw_event}, the argument that Pipedream's library passes.
        const event = isWrapped(given) ? given.raw_event : given;
        void emit(event, { name: channel });
      },
      sse(given: unknown) {
        const { channel, payload } = (isFields(given) ? given : {}) as Fields;
        const name = String(channel ?? '');
        // Server-sent events have the channel in a line of its own.
        if (/[\r\n]/.test(name)) throw new TypeError('The channel of $.send.sse has to be one line.');
        void emitSse(payload, { name });
      },
      http: send('http'),
      email: send('email'),
      s3: send('s3'),
    },
  };
  // Not enumerable, so that copying `$` does not call the getter.
  Object.defineProperty($, 'files', {
    get() {
      throw new Error('$.files is not supported: keep files in os.tmpdir().');
    },
  });
  return { $, exited: () => exited, settled: () => Promise.all(reading) };
}

const isWrapped = (value: unknown): value is { raw_event: unknown } =>
  isFields(value) &&
  Object.hasOwn(value, 'raw_event') &&
  Object.keys(value).every((key) => key === 'raw_event' || key === 'event');

/** `steps` of an action: the data of the trigger and of earlier steps by name. */
function readSteps(texts: Readonly<Record<string, string>>): Fields {
  const steps: Fields = {};
  for (const [name, json] of Object.entries(texts)) steps[name] = JSON.parse(json);
  const { trigger } = steps;
  if (isFields(trigger)) trigger.raw_event = trigger.event;
  return steps;
}

/**
 * Calls `run` of an action; its return value is the export `$return_value`.
 * @returns whether the workflow ends after this step
 */
export async function runAction(
  component: Fields,
  self: Fields,
  call: ActionCall,
  io: ChildIO,
): Promise<boolean> {
  const { $, exited, settled } = createDollar(call, io);
  const run = component.run as (this: Fields, argument: Fields) => unknown;
  const returned = await run.call(self, { $, steps: readSteps(call.steps) });
  await settled();
  if (!exited() && returned !== undefined) {
    const json = serialise('The return value', returned);
    if (json !== undefined) io.export('$return_value', json);
  }
  return exited();
}

import { isReservedChannel } from '@wellspring/contract/channels';
import { LIMITS } from '@wellspring/contract/limits';
import { systemClock } from '@wellspring/core/clock';
import { isTooDeep, MAX_DEPTH } from '@wellspring/core/json-depth';
import { truncateUtf8 } from '@wellspring/core/truncate';
import type { ChildIO } from './program-types.ts';
import { toThrown } from './thrown.ts';

const SUMMARY_BYTES = 1024;

const { captureStackTrace } = Error;

/** `this.$emit`: serialises immediately, so later changes of the object do not affect the event. */
export function createEmit(io: ChildIO): (event?: unknown, metadata?: unknown) => Promise<void> {
  const fault = (message: string) => {
    const error = Object.assign(new Error(message), { name: 'EmitError' });
    // With the place in the code: a run may emit in many.
    captureStackTrace(error, emit);
    io.fault(toThrown(error));
  };

  const emit = (event?: unknown, metadata?: unknown): Promise<void> => {
    const given = (typeof metadata === 'object' && metadata !== null ? metadata : {}) as Record<
      string,
      unknown
    >;
    const at = systemClock.now();
    try {
      const json = JSON.stringify(event);
      const payload = json ?? 'null';
      const name = given.name === undefined || given.name === null ? '' : String(given.name);
      const id = readId(given.id);
      if (json === undefined && event !== undefined) {
        fault('The event was not emitted: JSON cannot hold it.');
      } else if (Buffer.byteLength(name) > LIMITS.eventName) {
        fault(`The event was not emitted: its name has more than ${LIMITS.eventName} bytes.`);
      } else if (isReservedChannel(name)) {
        fault(`The event was not emitted: the channel ${name} is reserved.`);
      } else if (payload.length > LIMITS.emit || Buffer.byteLength(payload) > LIMITS.emit) {
        fault(`The event was not emitted: it has more than ${LIMITS.emit / 1024 / 1024} MB.`);
      } else if (id === undefined) {
        fault('The event was not emitted: its id is neither a text nor a number.');
      } else if (Buffer.byteLength(String(id ?? '')) > LIMITS.emitId) {
        fault(`The event was not emitted: its id has more than ${LIMITS.emitId} bytes.`);
      } else if (isTooDeep(payload)) {
        fault(`The event was not emitted: it is nested more than ${MAX_DEPTH} levels deep.`);
      } else {
        const { summary, ts, delivery_ts } = given;
        io.emit({
          payload,
          id,
          name,
          summary:
            summary === undefined || summary === null ? null : truncateUtf8(String(summary), SUMMARY_BYTES),
          // As in the original, an invalid time is now.
          ts: ts === undefined || ts === null ? null : (readTime(ts) ?? at),
          at,
          delivery_ts: readTime(delivery_ts),
        });
      }
    } catch (error) {
      fault(`The event was not emitted: it cannot be serialised as JSON. ${(error as Error)?.message ?? ''}`);
    }
    return Promise.resolve();
  };
  return emit;
}

/** @returns undefined for a value whose text does not tell it from others, such as `[object Object]`; dedupe would drop events */
function readId(id: unknown): string | number | null | undefined {
  if (id === undefined || id === null || Number.isNaN(id)) return null;
  if (typeof id === 'number' && Number.isFinite(id)) return id;
  if (typeof id === 'function' || typeof id === 'symbol') return undefined;
  if (typeof id !== 'object') return String(id);
  try {
    const text = String(id);
    return text.includes('[object ') ? undefined : text;
  } catch {
    return undefined;
  }
}

/** Epoch ms of a number, a Date or a date text; null for anything else. */
function readTime(value: unknown): number | null {
  const ms =
    typeof value === 'number'
      ? value
      : value instanceof Date
        ? value.getTime()
        : typeof value === 'string'
          ? /^\d+$/.test(value)
            ? Number(value)
            : Date.parse(value)
          : Number.NaN;
  return Number.isFinite(ms) && Math.abs(ms) <= 8.64e15 ? Math.trunc(ms) : null;
}

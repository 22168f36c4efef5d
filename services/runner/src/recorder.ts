import type { ThrownError } from '@wellspring/component/program/program-types';
import type { TestCall } from '@wellspring/contract/calls';
import { LIMITS } from '@wellspring/contract/limits';
import type { Host } from '@wellspring/sandbox/port';
import type { Mask } from './mask-secrets.ts';

type TestResult = TestCall['answer'];

/** Collects the effects of a test run for its result; nothing is stored. */
export interface Recorder {
  host: Host;
  /** Number of emitted events, and bytes of all effects; both include what is left out of the result. */
  readonly events: number;
  readonly bytes: number;
  result(): Omit<TestResult, 'duration_ms'>;
}

const sizeOf = (...texts: unknown[]): number =>
  texts.reduce<number>((sum, text) => sum + Buffer.byteLength(String(text ?? '')), 0);

export function createRecorder(mask: Mask): Recorder {
  const emitted: TestResult['emitted'] = [];
  const logs: TestResult['logs'] = [];
  const sends: TestResult['sends'] = [];
  const exported = new Map<string, string>();
  let response: TestResult['response'] = null;
  let error: TestResult['error'] = null;
  let events = 0;
  let bytes = 0;
  let shownBytes = 0;
  let truncated = false;
  let revision = 0;

  /** Counts an effect. @returns whether it fits into the result, in a list that has `length` items */
  function fits(size: number, length: number): boolean {
    bytes += size;
    if (length >= LIMITS.testItems || shownBytes + size > LIMITS.testBytes) {
      truncated = true;
      return false;
    }
    shownBytes += size;
    return true;
  }

  return {
    host: {
      emit({ payload, name, id, summary, ts }) {
        events += 1;
        if (fits(sizeOf(payload, name, id, summary), emitted.length))
          emitted.push({ payload, name, id, summary, ts });
      },
      fault({ name, message, stack, cause }: ThrownError) {
        error ??= {
          code: mask(name),
          msg: mask(message),
          stack: mask(stack),
          ...(cause === undefined ? {} : { cause: mask(cause) }),
        };
      },
      log({ ts, level, msg }) {
        const text = mask(msg);
        if (fits(sizeOf(text), logs.length)) logs.push({ ts, level, msg: text });
      },
      respond({ status, headers, body }) {
        if (fits(sizeOf(JSON.stringify(headers), body), 0)) response ??= { status, headers, body };
      },
      export(name, json) {
        const former = exported.get(name);
        if (former !== undefined) shownBytes -= sizeOf(name, former);
        exported.delete(name);
        if (fits(sizeOf(name, json), exported.size)) exported.set(name, json);
      },
      send(kind, json) {
        if (fits(sizeOf(json), sends.length)) sends.push({ kind, json });
      },
      dbSet() {
        // The state is not stored; the sandbox only needs a growing number.
        revision += 1;
        return revision;
      },
    },
    get events() {
      return events;
    },
    get bytes() {
      return bytes;
    },
    result: () => ({
      ok: error === null,
      emitted,
      logs,
      response,
      exports: [...exported].map(([name, json]) => ({ name, json })),
      sends,
      truncated,
      error,
    }),
  };
}

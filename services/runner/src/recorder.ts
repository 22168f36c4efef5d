import type { ThrownError } from '@wellspring/component/program/program-types';
import type { TestCall } from '@wellspring/contract/calls';
import { LIMITS } from '@wellspring/contract/limits';
import { parsedBytes } from '@wellspring/core/parsed-size';
import type { Host, Result } from '@wellspring/sandbox/port';
import { type Mask, maskError } from './mask-secrets.ts';
import { type costOf, sizeOf } from './owner-costs.ts';

type TestResult = TestCall['answer'];

/** Collects the effects of a test run for its result; nothing is stored. */
export interface Recorder {
  host: Host;
  /** As that of a run which is stored; includes effects that are left out of the result. */
  cost(result: Result): ReturnType<typeof costOf>;
  result(): Omit<TestResult, 'duration_ms'>;
}

const bytesOf = (...texts: unknown[]): number =>
  texts.reduce<number>((sum, text) => sum + Buffer.byteLength(String(text ?? '')), 0);

export function createRecorder(mask: Mask): Recorder {
  const emitted: TestResult['emitted'] = [];
  const logs: TestResult['logs'] = [];
  const sends: TestResult['sends'] = [];
  const exported = new Map<string, string>();
  let response: TestResult['response'] = null;
  let error: ThrownError | undefined;
  let dbRevision = 0;
  /** Of all effects. */
  const cost = { events: 0, bytes: 0 };
  let shownBytes = 0;
  let truncated = false;

  /** The result is parsed for the answer. @returns whether an effect fits into it, in a list that has `length` items */
  function fits(size: number, length: number): boolean {
    if (length >= LIMITS.testItems || shownBytes + size > LIMITS.testBytes) {
      truncated = true;
      return false;
    }
    shownBytes += size;
    return true;
  }

  function count(effects: Parameters<typeof sizeOf>[0]): void {
    const { events, bytes } = sizeOf(effects);
    cost.events += events;
    cost.bytes += bytes;
  }

  return {
    host: {
      emit(emit) {
        count({ emits: [emit] });
        const { payload, name, id, summary, ts } = emit;
        if (fits(parsedBytes(payload) + bytesOf(name, id, summary), emitted.length))
          emitted.push({ payload, name, id, summary, ts });
      },
      fault(thrown) {
        count({ errors: [thrown] });
        error ??= thrown;
      },
      log(line) {
        count({ logs: [line] });
        const { ts, level } = line;
        const msg = mask(line.msg, line.isCut);
        if (fits(bytesOf(msg), logs.length)) logs.push({ ts, level, msg });
      },
      respond({ status, headers, body }) {
        cost.bytes += body.length;
        if (fits(bytesOf(JSON.stringify(headers), body), 0)) response ??= { status, headers, body };
      },
      export(name, json) {
        cost.bytes += json.length;
        const former = exported.get(name);
        if (former !== undefined) shownBytes -= bytesOf(name) + parsedBytes(former);
        exported.delete(name);
        if (fits(bytesOf(name) + parsedBytes(json), exported.size)) exported.set(name, json);
      },
      send(kind, json) {
        count({ sends: [{ request: json }] });
        if (fits(parsedBytes(json), sends.length)) sends.push({ kind, json });
      },
      // The state is not stored; the sandbox only needs a growing number.
      dbSet(key, json) {
        count({ sets: [{ key, json }] });
        dbRevision += 1;
        return dbRevision;
      },
    },
    cost: (result) => ({ ...cost, result }),
    result: () => ({
      ok: error === undefined,
      emitted,
      logs,
      response,
      exports: [...exported].map(([name, json]) => ({ name, json })),
      sends,
      truncated,
      error: error ? shown(maskError(error, mask)) : null,
    }),
  };
}

const shown = ({ name, message, stack, cause }: ThrownError): TestResult['error'] => ({
  code: name,
  msg: message,
  stack,
  ...(cause === undefined ? {} : { cause }),
});

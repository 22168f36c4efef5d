import type { Emit, LogLine, ThrownError } from '@wellspring/component/program/program-types';
import type { TestCall } from '@wellspring/contract/calls';
import { LIMITS } from '@wellspring/contract/limits';
import type { Host, Result } from '@wellspring/sandbox/port';
import { type Mask, maskError } from './mask-secrets.ts';
import { costOf } from './owner-costs.ts';

type TestResult = TestCall['answer'];

/** Collects the effects of a test run for its result; nothing is stored. */
export interface Recorder {
  host: Host;
  /** As that of a run which is stored; includes effects that are left out of the result. */
  cost(result: Result): ReturnType<typeof costOf>;
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
  /** All effects. */
  const emits: Emit[] = [];
  const errors: ThrownError[] = [];
  const lines: LogLine[] = [];
  const sets: { key: string; json: string | undefined }[] = [];
  const requests: { request: string }[] = [];
  let otherBytes = 0;
  let shownBytes = 0;
  let truncated = false;

  /** @returns whether an effect fits into the result, in a list that has `length` items */
  function fits(size: number, length: number): boolean {
    if (length >= LIMITS.testItems || shownBytes + size > LIMITS.testBytes) {
      truncated = true;
      return false;
    }
    shownBytes += size;
    return true;
  }

  return {
    host: {
      emit(emit) {
        emits.push(emit);
        const { payload, name, id, summary, ts } = emit;
        if (fits(sizeOf(payload, name, id, summary), emitted.length))
          emitted.push({ payload, name, id, summary, ts });
      },
      fault: (error) => void errors.push(error),
      log(line) {
        lines.push(line);
        const { ts, level } = line;
        const msg = mask(line.msg, line.isCut);
        if (fits(sizeOf(msg), logs.length)) logs.push({ ts, level, msg });
      },
      respond({ status, headers, body }) {
        otherBytes += body.length;
        if (fits(sizeOf(JSON.stringify(headers), body), 0)) response ??= { status, headers, body };
      },
      export(name, json) {
        otherBytes += json.length;
        const former = exported.get(name);
        if (former !== undefined) shownBytes -= sizeOf(name, former);
        exported.delete(name);
        if (fits(sizeOf(name, json), exported.size)) exported.set(name, json);
      },
      send(kind, json) {
        requests.push({ request: json });
        if (fits(sizeOf(json), sends.length)) sends.push({ kind, json });
      },
      // The state is not stored; the sandbox only needs a growing number.
      dbSet: (key, json) => sets.push({ key, json }),
    },
    cost: (result) =>
      costOf({ outcome: { emits, errors, logs: lines }, result, sets, sends: requests }, otherBytes),
    result: () => ({
      ok: errors.length === 0,
      emitted,
      logs,
      response,
      exports: [...exported].map(([name, json]) => ({ name, json })),
      sends,
      truncated,
      error: errors[0] ? shown(maskError(errors[0], mask)) : null,
    }),
  };
}

const shown = ({ name, message, stack, cause }: ThrownError): TestResult['error'] => ({
  code: name,
  msg: message,
  stack,
  ...(cause === undefined ? {} : { cause }),
});

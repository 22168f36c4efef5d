import type { ThrownError } from '@wellspring/component/program/program-types';
import type { TestCall } from '@wellspring/contract/calls';
import { LIMITS } from '@wellspring/contract/limits';
import type { Host } from '@wellspring/sandbox/port';
import type { Mask } from './mask-secrets.ts';

type Answer = TestCall['answer'];

/** Collects the effects of a test run for its answer; nothing is stored. */
export interface Recorder {
  host: Host;
  /** Number and bytes of all emitted events, including those left out of the answer. */
  readonly events: number;
  readonly bytes: number;
  answer(): Omit<Answer, 'duration_ms'>;
}

export function createRecorder(mask: Mask): Recorder {
  const emitted: Answer['emitted'] = [];
  const logs: Answer['logs'] = [];
  const sends: Answer['sends'] = [];
  const exported = new Map<string, string>();
  let response: Answer['response'] = null;
  let error: Answer['error'] = null;
  let events = 0;
  let bytes = 0;
  let truncated = false;
  let revision = 0;

  function add<T>(list: T[], item: T, size: number): void {
    bytes += size;
    if (list.length >= LIMITS.testItems || bytes > LIMITS.testBytes) truncated = true;
    else list.push(item);
  }

  return {
    host: {
      emit({ payload, name, id, summary, ts }) {
        events += 1;
        add(emitted, { payload, name, id, summary, ts }, payload.length);
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
        add(logs, { ts, level, msg: text }, text.length);
      },
      respond({ status, headers, body }) {
        bytes += body.length;
        if (bytes > LIMITS.testBytes) truncated = true;
        else response ??= { status, headers, body };
      },
      export(name, json) {
        bytes += json.length;
        if (exported.size >= LIMITS.testItems || bytes > LIMITS.testBytes) truncated = true;
        else exported.set(name, json);
      },
      send: (kind, json) => add(sends, { kind, json }, json.length),
      dbSet() {
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
    answer: () => ({
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

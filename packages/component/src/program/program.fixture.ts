import { beforeEach } from '@jest/globals';
import { readDefinition } from './define.ts';
import { createProgram } from './program.ts';
import type {
  ChildIO,
  Emit,
  Instance,
  LogLine,
  Program,
  Respond,
  RunTrigger,
  ThrownError,
} from './program-types.ts';

/** The program of a test, and what it told the runner. */
export let said: {
  emits: Emit[];
  faults: ThrownError[];
  logs: LogLine[];
  replies: Respond[];
  sets: [string, string | undefined][];
  exports: [string, string][];
  sends: [string, string][];
};
export let program: Program;

beforeEach(() => {
  said = { emits: [], faults: [], logs: [], replies: [], sets: [], exports: [], sends: [] };
  const io: ChildIO = {
    emit: (emit) => void said.emits.push(emit),
    fault: (error) => void said.faults.push(error),
    log: (line) => void said.logs.push(line),
    respond: (reply) => void said.replies.push(reply),
    dbSet: (key, json) => void said.sets.push([key, json]),
    export: (name, json) => void said.exports.push([name, json]),
    send: (kind, request) => void said.sends.push([kind, request]),
  };
  program = createProgram(io);
});

export type Self = Record<string, never> & {
  $emit(event?: unknown, metadata?: unknown): Promise<void>;
  db: { get(key: unknown): unknown; set(key: unknown, value: unknown): void };
  http: { endpoint: string; respond(reply?: unknown): Promise<void> };
};
export const value = (event: unknown): RunTrigger => ({ kind: 'value', json: JSON.stringify(event) });

export function start(fields: object, instance: Partial<Instance> = {}): void {
  const module = { name: 'Tested', ...fields };
  const { props } = readDefinition(module);
  program.start(module, {
    source_id: 'dc_1',
    props,
    values: {},
    endpoints: {},
    db: {},
    dbRevision: 1,
    ...instance,
  });
}

/** Runs this as `run` with the props that most tests need. */
export async function run(
  body: (self: Self, event: unknown) => unknown,
  instance: Partial<Instance> = {},
  more: object = {},
) {
  start(
    {
      props: { db: '$.service.db', http: { type: '$.interface.http', customResponse: true } },
      run(this: Self, event: unknown) {
        return body(this, event);
      },
      ...more,
    },
    { endpoints: { http: { url: 'http://host/e/key', customResponse: true } }, ...instance },
  );
  await program.run(value({ n: 1 }), false);
}

export const payloads = () => said.emits.map(({ payload }) => JSON.parse(payload));

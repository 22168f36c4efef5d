import { beforeEach, describe, expect, test } from '@jest/globals';
import { LIMITS } from '@wellspring/contract/limits';
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

let said: {
  emits: Emit[];
  faults: ThrownError[];
  logs: LogLine[];
  replies: Respond[];
  sets: [string, string | undefined][];
};
let program: Program;

beforeEach(() => {
  said = { emits: [], faults: [], logs: [], replies: [], sets: [] };
  const io: ChildIO = {
    emit: (emit) => void said.emits.push(emit),
    fault: (error) => void said.faults.push(error),
    log: (line) => void said.logs.push(line),
    respond: (reply) => void said.replies.push(reply),
    dbSet: (key, json) => void said.sets.push([key, json]),
  };
  program = createProgram(io);
});

type Self = Record<string, never> & {
  $emit(event?: unknown, metadata?: unknown): Promise<void>;
  db: { get(key: unknown): unknown; set(key: unknown, value: unknown): void };
  http: { endpoint: string; respond(reply?: unknown): Promise<void> };
};
const value = (event: unknown): RunTrigger => ({ kind: 'value', json: JSON.stringify(event) });

function start(fields: object, instance: Partial<Instance> = {}): void {
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
async function run(
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

const payloads = () => said.emits.map(({ payload }) => JSON.parse(payload));

describe('$emit', () => {
  test('serialises at once: later changes change nothing', async () => {
    await run((self) => {
      const event = { n: 1 };
      self.$emit(event);
      event.n = 2;
      self.$emit(event);
      self.$emit();
    });
    expect(said.emits.map(({ payload }) => payload)).toEqual(['{"n":1}', '{"n":2}', 'null']);
  });

  test('what JSON cannot hold is a fault, and the other events stay', async () => {
    await run((self) => {
      const circular: Record<string, unknown> = {};
      circular.self = circular;
      self.$emit(circular);
      self.$emit(1n);
      self.$emit('kept');
    });
    expect(payloads()).toEqual(['kept']);
    expect(said.faults).toHaveLength(2);
    expect(said.faults[0]!.message).toMatch(/not emitted: it cannot be serialised/);
  });

  test('a name of more than 256 bytes, an id of more than 1 KB, events too large or too deep are faults', async () => {
    await run((self) => {
      self.$emit(1, { name: 'é'.repeat(129) });
      self.$emit(2, { name: 'é'.repeat(128) });
      self.$emit('x'.repeat(LIMITS.emit));
      self.$emit(3, { id: 'x'.repeat(1025) });
      self.$emit(JSON.parse(`${'['.repeat(300)}${']'.repeat(300)}`));
    });
    expect(payloads()).toEqual([2]);
    expect(said.faults.map(({ message }) => message)).toEqual([
      expect.stringMatching(/more than 256 bytes/),
      expect.stringMatching(/more than 6 MB/),
      expect.stringMatching(/id has more than 1024 bytes/),
      expect.stringMatching(/more than 256 levels deep/),
    ]);
  });

  test.each([
    [0, 0],
    ['a', 'a'],
    [null, null],
    [undefined, null],
    [Number.NaN, null],
    [true, 'true'],
    [12345678901234567890n, '12345678901234567890'],
  ])('the id %p is kept as %p', async (given, kept) => {
    await run((self) => self.$emit(1, { id: given }));
    expect(said.emits[0]!.id).toBe(kept);
  });

  test.each([
    [1700000000123, 1700000000123],
    [new Date(5000), 5000],
    ['2020-01-01T00:00:00Z', 1577836800000],
    ['1700000000123', 1700000000123],
    ['never', null],
    [{}, null],
    [new Date(Number.NaN), null],
    [Number.POSITIVE_INFINITY, null],
  ])('the ts %p is read as %p', async (given, ts) => {
    await run((self) => self.$emit(1, { ts: given }));
    expect(said.emits[0]!.ts).toBe(ts);
  });

  test('a summary is text of at most 1 KB', async () => {
    await run((self) => {
      self.$emit(1, { summary: 42 });
      self.$emit(1, { summary: 'é'.repeat(1000) });
      self.$emit(1, 'no metadata');
    });
    expect(said.emits.map(({ summary }) => summary)).toEqual(['42', 'é'.repeat(512), null]);
  });

  test('a component without run emits its trigger event', async () => {
    start({});
    await program.run(value({ timestamp: 1 }), true);
    expect(payloads()).toEqual([{ timestamp: 1 }]);
  });
});

describe('$service.db', () => {
  test('keeps JSON clones and tells what was set', async () => {
    await run(
      (self) => {
        const list = [new Date(0)];
        self.db.set('list', list);
        list.push(new Date(1));
        self.$emit([self.db.get('list'), self.db.get('stored'), self.db.get('unknown') === undefined]);
        self.db.set('stored', undefined);
        self.db.set('unknown', undefined);
        self.$emit(self.db.get('stored') === undefined);
      },
      { db: { stored: '7' } },
    );
    expect(payloads()).toEqual([[['1970-01-01T00:00:00.000Z'], 7, true], true]);
    expect(said.sets).toEqual([
      ['list', '["1970-01-01T00:00:00.000Z"]'],
      ['stored', undefined],
    ]);
  });

  test('a set beyond 64 KB in all throws and changes nothing', async () => {
    const error = await run((self) => {
      self.db.set('a', 'x'.repeat(40_000));
      self.db.set('b', 'x'.repeat(40_000));
    }).catch((thrown: Error) => thrown);
    expect(error).toBeInstanceOf(RangeError);
    expect(said.sets.map(([key]) => key)).toEqual(['a']);
    await program.run(value({}), false).catch(() => {});
    expect(said.sets.map(([key]) => key)).toEqual(['a', 'a']);
  });

  test.each([[1n], [() => 1]])('%p cannot be set', async (bad) => {
    await expect(run((self) => self.db.set('a', bad))).rejects.toThrow();
    expect(said.sets).toEqual([]);
  });

  test('the map that the platform sends replaces what was there', async () => {
    await run((self) => self.$emit([self.db.get('a'), self.db.get('b')]), { db: { a: '1' } });
    program.syncDb({ b: '2' });
    await program.run(value({}), false);
    expect(payloads()).toEqual([
      [1, null],
      [null, 2],
    ]);
  });
});

describe('respond', () => {
  const bodyOf = (reply: Respond) => Buffer.from(reply.body, 'base64');

  test('only its first call counts, in each run anew', async () => {
    await run((self) => {
      self.http.respond({ status: '201', body: 'one' });
      self.http.respond({ body: 'two' });
    });
    await program.run(value({}), false);
    expect(said.replies.map((reply) => [reply.status, bodyOf(reply).toString()])).toEqual([
      [201, 'one'],
      [201, 'one'],
    ]);
  });

  test('an object becomes JSON with its type, bytes stay bytes', async () => {
    await run((self) =>
      self.http.respond({ body: { a: 1 }, headers: { 'X-A': 1, 'x-b': ['1', 2], 'x-c': undefined } }),
    );
    await run((self) => self.http.respond({ body: Buffer.from([0, 255]) }));
    await run((self) => self.http.respond({ body: [1], headers: { 'Content-Type': 'text/x' } }));
    await run((self) => self.http.respond());
    const [json, bytes, typed, empty] = said.replies;
    expect(json!.headers).toEqual({
      'X-A': '1',
      'x-b': ['1', '2'],
      'content-type': 'application/json; charset=utf-8',
    });
    expect(bodyOf(json!).toString()).toBe('{"a":1}');
    expect([...bodyOf(bytes!)]).toEqual([0, 255]);
    expect(typed!.headers).toEqual({ 'Content-Type': 'text/x' });
    expect(empty).toEqual({ status: 200, headers: {}, body: '' });
  });

  test.each([[99], [600], [200.5], ['abc'], [{}]])('the status %p throws', async (status) => {
    await expect(run((self) => self.http.respond({ status }))).rejects.toThrow(/integer from 100 to 599/);
    expect(said.replies).toEqual([]);
  });

  test('without customResponse it is ignored, with a line in the log', async () => {
    await run((self) => self.http.respond({ status: 999 }), {
      endpoints: { http: { url: 'u', customResponse: false } },
    });
    expect(said.replies).toEqual([]);
    expect(said.logs).toEqual([
      expect.objectContaining({ level: 'warn', msg: expect.stringMatching(/customResponse/) }),
    ]);
  });
});

describe('this', () => {
  test('has props, app instances and methods, which may be called detached', async () => {
    const app = {
      type: 'app',
      app: 'chat',
      methods: {
        hello() {
          return 'hello';
        },
        twice(this: { hello(): string }) {
          return this.hello() + this.hello();
        },
      },
    };
    start(
      {
        props: { label: 'string', unset: { type: 'string', optional: true }, app, http: '$.interface.http' },
        methods: {
          whoami(this: { label: string }) {
            return this.label;
          },
          run() {
            return 'the method';
          },
        },
        hooks: { activate() {} },
        run(
          this: Record<string, never> & {
            whoami(): string;
            run(): string;
            app: { twice(): string; $auth: object };
            $emit(event: unknown): void;
            http: { endpoint: string };
          },
        ) {
          const { whoami } = this;
          this.$emit([
            whoami(),
            this.run(),
            this.app.twice(),
            this.app.$auth,
            this.unset === undefined,
            this.http.endpoint,
            typeof this.hooks,
          ]);
        },
      },
      { values: { label: 'me' }, endpoints: { http: { url: 'http://host/e/key', customResponse: false } } },
    );
    await program.run(value({}), false);
    expect(payloads()).toEqual([
      ['me', 'the method', 'hellohello', {}, true, 'http://host/e/key', 'undefined'],
    ]);
  });

  test('is new for each run: what a run changed in it is gone', async () => {
    start(
      {
        props: { list: 'string[]' },
        run(this: { list: string[]; seen?: number; $emit(event: unknown): void }) {
          this.seen = (this.seen ?? 0) + 1;
          this.list.push('changed');
          this.$emit([this.seen, this.list]);
        },
      },
      { values: { list: ['a'] } },
    );
    await program.run(value({}), false);
    await program.run(value({}), false);
    expect(payloads()).toEqual([
      [1, ['a', 'changed']],
      [1, ['a', 'changed']],
    ]);
  });

  test('a value stored with its label reaches the code as label and value', async () => {
    start(
      {
        props: { room: { type: 'string', withLabel: true } },
        run(this: { room: unknown; $emit(event: unknown): void }) {
          this.$emit(this.room);
        },
      },
      { values: { room: { __lv: { label: 'Lobby', value: 'r1' } } } },
    );
    await program.run(value({}), false);
    expect(payloads()).toEqual([{ label: 'Lobby', value: 'r1' }]);
  });

  test('props with names of Object.prototype are only names', async () => {
    start({
      props: { constructor: 'string', toString: 'string' },
      run(this: { constructor: unknown; $emit(event: unknown): void }) {
        this.$emit(this.constructor === undefined);
      },
    });
    await program.run(value({}), false);
    expect(payloads()).toEqual([true]);
  });
});

test('what a run does after its end counts for no run', async () => {
  let late: Self;
  await run((self) => {
    late = self;
    self.$emit('in time');
  });
  await late!.$emit('late');
  late!.http.respond({ body: 'late' });
  expect(() => late.db.set('late', 1)).toThrow(/The run is over/);
  expect(late!.db.get('late')).toBeUndefined();
  expect(payloads()).toEqual(['in time']);
  expect(said.replies).toEqual([]);
  expect(said.sets).toEqual([]);
});

test('hooks have the same this, and what they throw is thrown', async () => {
  start({
    props: { db: '$.service.db' },
    hooks: {
      deploy(this: Self) {
        this.db.set('deployed', true);
        this.$emit('from deploy');
      },
      async activate() {
        throw new TypeError('no such room');
      },
    },
  });
  await program.hook('deploy');
  expect(said.sets).toEqual([['deployed', 'true']]);
  expect(payloads()).toEqual(['from deploy']);
  await expect(program.hook('activate')).rejects.toThrow('no such room');
});

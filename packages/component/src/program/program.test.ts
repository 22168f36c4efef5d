import { describe, expect, test } from '@jest/globals';
import { payloads, program, run, type Self, said, start, value } from './program.fixture.ts';

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

test('effects of a run after its end belong to no run', async () => {
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

import { describe, expect, test } from '@jest/globals';
import { program, said, start } from './program.fixture.ts';

type Argument = { $: Record<string, never> & Dollar; steps: Record<string, never> };
interface Dollar {
  export(name: string, value: unknown): void;
  respond(reply: unknown): Promise<void>;
  files: Record<'open', (path: string) => unknown>;
  flow: Record<'exit' | 'delay' | 'suspend' | 'rerun', (value?: unknown) => unknown>;
  send: Record<'emit' | 'sse' | 'http', (value?: unknown, channel?: unknown) => void>;
}

const act = (run: (argument: Argument) => unknown) => {
  start({ type: 'action', run }, { source_id: 'p_1' });
  return program.action({
    values: {},
    steps: { trigger: '{"event":1,"context":{}}' },
    context: { id: 'run_1' },
  });
};

test('the return value and exports are data of the step, except undefined', async () => {
  expect(
    await act(({ $ }) => {
      $.export('a', { n: 1 });
      $.export('none', undefined);
      return [1];
    }),
  ).toBe(false);
  expect(said.exports).toEqual([
    ['a', '{"n":1}'],
    ['$return_value', '[1]'],
  ]);
});

test('$.flow.exit ends the workflow, also without return', async () => {
  expect(await act(({ $ }) => void $.flow.exit('enough'))).toBe(true);
  expect(said.exports).toEqual([]);
});

test('what a step sends on a reserved channel is a fault', async () => {
  await act(({ $ }) => {
    $.send.emit(1, '$errors');
    $.send.sse({ channel: '$logs', payload: 2 });
    $.send.emit(3, 'errors');
  });
  expect(said.emits).toMatchObject([{ payload: '3', name: 'errors' }]);
  expect(said.faults.map(({ message }) => message)).toEqual([
    'The event was not emitted: the channel $errors is reserved.',
    'The event was not emitted: the channel $logs is reserved.',
  ]);
});

describe('an unsupported function is an error of the step', () => {
  const circular: Record<string, unknown> = {};
  circular.self = circular;
  test.each<[string, (argument: Argument) => unknown, RegExp]>([
    ['a circular export', ({ $ }) => $.export('a', circular), /The export a cannot be serialised/],
    ['a return value that is no JSON', () => 1n, /The return value cannot be serialised/],
    ['an export without name', ({ $ }) => $.export('', 1), /name of an export/],
    ['too much', () => 'x'.repeat(7 * 2 ** 20), /more than 6 MB/],
    ['a request that is no object', ({ $ }) => $.send.http('http://x'), /needs an object/],
    ['a status out of range', ({ $ }) => $.respond({ status: 42 }), /integer from 100 to 599/],
    ['a suspension', ({ $ }) => $.flow.suspend(), /suspend is not supported/],
    ['a delay', ({ $ }) => $.flow.delay(1), /delay is not supported: a run .* cannot be suspended/],
    ['a rerun', ({ $ }) => $.flow.rerun(1), /rerun is not supported/],
    ['a file store', ({ $ }) => $.files.open('a'), /files is not supported: keep files in os.tmpdir/],
    ['a channel of two lines', ({ $ }) => $.send.sse({ channel: 'a\nb' }), /one line/],
  ])('%s', async (_, run, message) => {
    await expect(act(run)).rejects.toThrow(message);
    expect(said.exports).toEqual([]);
  });
});

test('a stream may be the body of a response', async () => {
  async function* body() {
    yield 'one ';
    yield Buffer.from('two');
  }
  await act(({ $ }) => $.respond({ status: 200, body: body(), immediate: true }));
  expect(said.replies).toMatchObject([{ immediate: true, body: Buffer.from('one two').toString('base64') }]);
});

test('a response need not be awaited, also before an error and with a stream that takes its time', async () => {
  async function* body() {
    for (const part of ['one ', 'two']) {
      await new Promise<void>((done) => void setImmediate(done));
      yield part;
    }
  }
  await act(({ $ }) => void $.respond({ body: body() }));
  const failed = act(({ $ }) => {
    void $.respond({ body: 'three' });
    throw new Error('later');
  });
  await expect(failed).rejects.toThrow('later');
  const sent = said.replies.map((reply) => Buffer.from(reply.body, 'base64').toString());
  expect(sent).toEqual(['one two', 'three']);
});

test('effects of a step after its end belong to no other step', async () => {
  let late: Dollar | undefined;
  await act(({ $ }) => {
    late = $;
  });
  late!.send.emit('late');
  late!.export('late', 1);
  late!.send.http({ url: 'http://x/' });
  expect([said.emits, said.exports, said.sends]).toEqual([[], [], []]);
});

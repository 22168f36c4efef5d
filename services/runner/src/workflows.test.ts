import { describe, expect, test } from '@jest/globals';
import { type HttpReply, MAX_HOPS, type Send } from '@wellspring/contract/messages';
import { events } from '@wellspring/store/collections/events';
import { eventually } from '@wellspring/testing/eventually';
import { OWNER } from '@wellspring/testing/rows';
import { codeAllowNetworks, createGate } from './gate.fixture.ts';
import { usePlatform } from './platform.fixture.ts';
import { subscribe } from './rows.fixture.ts';
import { deployWorkflow } from './workflow.fixture.ts';

const t = usePlatform({ codeAllowNetworks });

const sse = (id: string) => t.store.collection(events).list({ where: { partition: `${id}/$sse` } });
const run = (id: string, ...list: unknown[]) => t.runToEnd(id, list);

test('steps run one after the other with the exports of the earlier ones', async () => {
  const { id } = await deployWorkflow(
    t,
    '$.export("extra", { n: 2 }); $.export("$summary", "did it"); return steps.trigger.event.n;',
    { name: 'none', body: '' },
    {
      name: 'two',
      body: '$.send.emit({ one: steps.one, none: steps.none, raw: steps.trigger.raw_event, text: this.text });',
      props: 'text: "string"',
      values: { text: '{{steps.one.extra.n}} of {{steps.trigger.event.n}}' },
    },
  );
  await run(id, { n: 41 });
  const one = { $return_value: 41, extra: { n: 2 }, $summary: 'did it' };
  expect(await t.events(id)).toEqual([{ one, none: {}, raw: { n: 41 }, text: '2 of 41' }]);
});

test('runs of a workflow are serial, in the order of arrival, however long their steps take', async () => {
  const { id } = await deployWorkflow(
    t,
    { name: 'begin', body: '$.send.emit("begin " + steps.trigger.event);' },
    {
      name: 'end',
      body: 'await new Promise((r) => setTimeout(r, steps.trigger.event === 0 ? 300 : 0)); $.send.emit("end " + steps.trigger.event);',
    },
  );
  await run(id, 0, 1, 2);
  expect(await t.events(id)).toEqual([0, 1, 2].flatMap((n) => [`begin ${n}`, `end ${n}`]));
});

test('a request of a run that handles errors says so', async () => {
  const { id } = await deployWorkflow(t, '$.send.http({ url: "http://x/" });');
  const from = { kind: 'event' as const, payload: '1', emitter_id: 'dc_0000000001', event_id: '1-0' };
  await t.triggerToEnd(id, { ...from, event_name: '$errors' });
  await t.triggerToEnd(id, { ...from, event_name: '' });
  const sends = await eventually(() => {
    const found = t.published.flatMap((message): Send[] => message.sends ?? []);
    return found.length === 2 && found;
  });
  expect(sends.map(({ handles_records }) => handles_records)).toEqual([true, undefined]);
});

test('a run that could not be committed is repeated whole, and its effects are stored once', async () => {
  const { id } = await deployWorkflow(
    t,
    '$.send.emit("one"); $.send.sse({ channel: "c", payload: 1 }); $.send.http({ url: "http://x/" });',
    '$.send.emit("two");',
  );
  let failures = 2;
  t.faults.commit = () => (failures-- > 0 ? 'refuse' : undefined);
  const [runId] = await t.runAll(id, [1]);
  await eventually(async () => expect(await t.events(id)).toHaveLength(2), { ms: 20_000 });
  await t.triggerToEnd(id, { kind: 'manual', payload: '1' }, { run_id: runId! });
  expect(await t.events(id)).toEqual(['one', 'two']);
  expect((await sse(id)).map(({ name, payload }) => [name, payload])).toEqual([['c', '1']]);
  const sends = t.published.flatMap((message): Send[] => message.sends ?? []);
  // The message may be published again: the delivery service knows a request by its id.
  expect([...new Set(sends.map((send) => send.id))]).toEqual([`${runId}/0`]);
  expect(sends[0]).toMatchObject({ kind: 'http', request: '{"url":"http://x/"}', run_id: runId });
});

test('what a workflow emits reaches the fan-out bare; what it sends to its stream does not', async () => {
  const { id } = await deployWorkflow(
    t,
    '$.send.emit({ raw_event: { n: 1 } }); $.send.emit({ n: 2 }, "side"); $.send.sse({ channel: "x", payload: 3 });',
  );
  await subscribe(t, id, '', 'side', 'x');
  await run(id, {});
  expect([t.publishedPayloads(), t.publishedPayloads('side'), t.publishedPayloads('x')]).toEqual([
    [{ n: 1 }],
    [{ n: 2 }],
    [],
  ]);
});

describe('the end of a run', () => {
  test('a throw ends it, with a record that names the step; effects before it stay', async () => {
    const { id, cells } = await deployWorkflow(
      t,
      '$.send.emit("before");',
      'throw new TypeError("no");',
      '$.send.emit("after");',
    );
    await run(id, { n: 7 });
    expect(await t.events(id)).toEqual(['before']);
    expect(await t.events(id, '$errors')).toMatchObject([
      {
        original_event: { n: 7 },
        original_context: { workflow_id: id, source_id: null, owner_id: OWNER },
        error: { code: 'TypeError', msg: 'no', cellId: cells[1] },
      },
    ]);
  });

  test('$.flow.exit ends it without an error', async () => {
    const { id } = await deployWorkflow(t, 'return $.flow.exit("enough");', '$.send.emit("after");');
    await run(id, 1);
    expect([await t.events(id), await t.events(id, '$errors')]).toEqual([[], []]);
  });

  test('an expression that is not a path is an error of its step, and runs no code', async () => {
    const { id, cells } = await deployWorkflow(t, {
      name: 'one',
      body: '$.send.emit(this.text);',
      props: 'text: "string"',
      values: { text: '{{40 + 2}}' },
    });
    await run(id, 1);
    expect(await t.events(id)).toEqual([]);
    expect(await t.events(id, '$errors')).toMatchObject([
      { error: { code: 'ExpressionError', cellId: cells[0] } },
    ]);
  });
});

describe('the reply of an HTTP call', () => {
  const replyOf = async (...steps: Parameters<typeof deployWorkflow>[1][]) => {
    const { id } = await deployWorkflow(t, ...steps);
    const address = t.call.openReplyAddress();
    await t.trigger(id, { kind: 'manual', payload: '{}' }, { reply_to: address.address });
    const reply = (await address.receive(20_000)) as HttpReply;
    address.close();
    return { id, reply };
  };
  const answer = (immediate: boolean) =>
    `await $.respond({ status: 201, body: { a: 1 }, immediate: ${immediate} });`;

  test('$.respond is sent at the end of the workflow, its first call counts', async () => {
    const { reply } = await replyOf(answer(false), 'await $.respond({ status: 202 });');
    expect(reply).toMatchObject({
      kind: 'response',
      status: 201,
      body: Buffer.from('{"a":1}').toString('base64'),
    });
  });

  test('an immediate one does not wait for the later steps', async () => {
    await using gate = await createGate();
    const { id, reply } = await replyOf(answer(true), `${gate.wait} $.send.emit("late");`);
    expect(reply).toMatchObject({ kind: 'response', status: 201 });
    expect(await t.events(id)).toEqual([]);
    gate.open();
    await t.quiet();
    expect(await t.events(id)).toEqual(['late']);
  });

  test('without $.respond it tells how the run ended', async () => {
    expect((await replyOf('')).reply).toEqual({ kind: 'none' });
    expect((await replyOf('throw 1;')).reply).toEqual({ kind: 'failed' });
  });

  test('a source in front of a workflow passes the reply address on, once its event is committed', async () => {
    const id = await t.deploy(`export default { name: 'In front' };`);
    const reply = { reply_to: 'somewhere', reply_by: 'p_0000000001' };
    await t.triggerToEnd(id, { kind: 'manual', payload: '1' }, reply);
    const passed = t.published.flatMap((message) => message.events.map((event) => event.reply));
    expect(passed).toEqual([{ to: 'somewhere', by: 'p_0000000001' }]);
  });
});

describe('limits', () => {
  const errorOf = async (id: string) => {
    await run(id, 'x'.repeat(1024));
    return (await t.events(id, '$errors'))[0] as { error: { code: string; msg: string; cellId: string } };
  };

  test('exports of all steps are bounded together', async () => {
    const body = 'return "x".repeat(3.5 * 2 ** 20);';
    const { id, cells } = await deployWorkflow(t, body, body);
    expect((await errorOf(id)).error).toMatchObject({ code: 'LimitError', cellId: cells[1] });
  });

  test('expressions cannot multiply data', async () => {
    const { id } = await deployWorkflow(t, 'return "x".repeat(2 ** 20);', {
      name: 'two',
      body: '$.send.emit(this.text.length);',
      props: 'text: "string"',
      values: { text: '{{steps.one.$return_value}}'.repeat(2000) },
    });
    expect((await errorOf(id)).error.msg).toMatch(/more than 6 MB/);
    expect(await t.events(id)).toEqual([]);
  });

  test('emits of all steps are bounded together', async () => {
    const body = 'for (let i = 0; i < 6000; i++) $.send.emit(i);';
    const { id } = await deployWorkflow(t, body, body);
    expect((await errorOf(id)).error.msg).toMatch(/more than 10000 emits/);
  });

  test('a loop through workflows ends, with a record', async () => {
    const { id } = await deployWorkflow(t, '$.send.emit("again"); $.send.sse({ payload: 1 });');
    await t.runToEnd(id, [1], { hop: MAX_HOPS });
    expect(await t.events(id)).toEqual([]);
    expect(await t.events(id, '$errors')).toMatchObject([{ error: { code: 'LoopError' } }]);
  });

  test('a channel of a stream is one line', async () => {
    const { id } = await deployWorkflow(t, '$.send.sse({ channel: "a\\ndata: forged", payload: 1 });');
    expect((await errorOf(id)).error.msg).toMatch(/one line/);
    expect(await sse(id)).toEqual([]);
  });
});

test('a secret prop that an expression fills is masked in the logs', async () => {
  const { id } = await deployWorkflow(t, {
    name: 'one',
    body: 'console.log("token " + this.token); $.send.emit(this.token.length);',
    props: 'token: { type: "string", secret: true }',
    values: { token: '{{steps.trigger.event.token}}' },
  });
  await run(id, { token: 'tok-3f9a-of-the-event' });
  expect(await t.events(id)).toEqual([21]);
  expect(await t.lines(id)).toEqual(['token ********']);
});

test('a secret of a step that is cut by a limit is masked', async () => {
  const { id } = await deployWorkflow(t, {
    name: 'one',
    body: `throw Object.assign(new Error('any'), { name: 'x'.repeat(256 - 8) + this.token });`,
    props: 'token: { type: "string", secret: true }',
    values: { token: 'tok-3f9a-of-the-step' },
  });
  await run(id, 1);
  const [{ error }] = (await t.events(id, '$errors')) as [{ error: { code: string } }];
  expect(error.code).toBe(`${'x'.repeat(256 - 8)}********`);
});

test('what an expression adds to a secret list is masked in the logs', async () => {
  const { id } = await deployWorkflow(t, {
    name: 'one',
    body: 'console.log(this.tokens.join(" ")); $.send.emit(this.tokens);',
    props: 'tokens: { type: "string[]", secret: true }',
    values: { tokens: ['fixed-token', '{{steps.trigger.event.token}}'] },
  });
  await run(id, { token: 'tok-3f9a-of-the-event' });
  expect(await t.events(id)).toEqual([['fixed-token', 'tok-3f9a-of-the-event']]);
  expect(await t.lines(id)).toEqual(['******** ********']);
});

test('a run of a replayed event says so in its context', async () => {
  const { id } = await deployWorkflow(t, '$.send.emit(steps.trigger.context.replay);');
  const trigger = {
    kind: 'event',
    payload: '1',
    emitter_id: 'dc_1',
    event_id: '1-0',
    event_name: '',
  } as const;
  await t.trigger(id, trigger);
  await t.triggerToEnd(id, { ...trigger, replay: true });
  expect(await t.events(id)).toEqual([false, true]);
});

test('a step sees its workflow in the environment, and nothing of a source', async () => {
  const { id } = await deployWorkflow(
    t,
    '$.send.emit([process.env.PIPEDREAM_WORKFLOW_ID, process.env.PD_COMPONENT ?? null, typeof this.$emit]);',
  );
  await run(id, 1);
  expect(await t.events(id)).toEqual([[id, null, 'undefined']]);
});

test('jobs of a deleted workflow are dropped, and its caller is told', async () => {
  const address = t.call.openReplyAddress();
  await t.trigger('p_9999999999', { kind: 'manual', payload: '1' }, { reply_to: address.address });
  expect(await address.receive(10_000)).toEqual({ kind: 'refused' });
  address.close();
});

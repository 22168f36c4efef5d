import { expect, test } from '@jest/globals';
import { CALLS, configuredFor, type TestCall } from '@wellspring/contract/calls';
import { events, logs } from '@wellspring/store/collections/events';
import { states } from '@wellspring/store/collections/states';
import { usage, usageDay, users } from '@wellspring/store/collections/users';
import { OWNER, userRow } from '@wellspring/testing/rows';
import { seal } from '@wellspring/testing/service-harness';
import { usePlatform } from './platform.fixture.ts';

const t = usePlatform();

async function testRun(
  body: string,
  event: unknown = {},
  values: object = {},
  type = 'source',
): Promise<TestCall['answer']> {
  const code = `export default {
    name: 'Tested',
    type: '${type}',
    dedupe: 'unique',
    props: {
      db: '$.service.db',
      http: { type: '$.interface.http', customResponse: true },
      token: { type: 'string', secret: true, optional: true },
    },
    async run(event) { ${body} },
  };`;
  const { bundle_id, bundle, definition } = await t.prepare(code);
  const message: TestCall['message'] = {
    owner_id: OWNER,
    bundle_id,
    bundle,
    props: definition.props,
    values: seal.seal(JSON.stringify(values), configuredFor(OWNER)),
    type: definition.type === 'action' ? 'action' : 'source',
    has_run: true,
    event: JSON.stringify(event),
  };
  return (await t.call.request(CALLS.test, message, { deadlineMs: 30_000 })) as TestCall['answer'];
}

test('a test run shows what the code emitted, logged and replied; nothing is stored', async () => {
  const answer = await testRun(
    `this.db.set('n', (this.db.get('n') ?? 0) + 1);
     for (const id of [1, 1]) this.$emit({ event, n: this.db.get('n') }, { id, name: 'c', summary: 's', ts: 5 });
     console.warn('uses ' + this.token);
     await this.http.respond({ status: 201, headers: { a: 'b' }, body: 'ü' });`,
    { k: 1 },
    { token: 'very secret' },
  );
  const emit = { payload: '{"event":{"k":1},"n":1}', name: 'c', id: 1, summary: 's', ts: 5 };
  expect(answer).toMatchObject({
    ok: true,
    emitted: [emit, emit],
    logs: [{ level: 'warn', msg: 'uses ********' }],
    response: { status: 201, headers: { a: 'b' }, body: Buffer.from('ü').toString('base64') },
    truncated: false,
    error: null,
  });
  expect(answer.duration_ms).toBeGreaterThanOrEqual(0);
  for (const collection of [events, logs, states])
    expect(await t.store.collection(collection as typeof events).count()).toBe(0);
});

test('an error of the code is part of the answer, with secrets masked; emits before it are shown', async () => {
  const values = { token: 'very secret' };
  const thrown = await testRun(`this.$emit(1); throw new TypeError('refused ' + this.token);`, {}, values);
  expect(thrown).toMatchObject({
    ok: false,
    emitted: [{ payload: '1' }],
    error: { code: 'TypeError', msg: 'refused ********' },
  });
  expect(await testRun('this.$emit(() => {}, { name: "x".repeat(300) });')).toMatchObject({
    ok: false,
    error: { code: 'EmitError' },
  });
});

test('an action shows its exports and the requests that it would send', async () => {
  const body = `const { $, steps } = event;
    $.export('$summary', this.token);
    $.send.http({ method: 'POST', url: 'https://example.com/' });
    $.send.emit({ raw_event: 1 });
    await $.respond({ status: 201, body: 'ü' });
    return [steps.trigger.event, $.context.test, steps.trigger.context.id === $.context.id, $.context.run];`;
  expect(await testRun(body, { k: 1 }, { token: 'shown' }, 'action')).toMatchObject({
    ok: true,
    emitted: [{ payload: '1' }],
    exports: [
      { name: '$summary', json: '"shown"' },
      { name: '$return_value', json: '[{"k":1},true,true,{"runs":1}]' },
    ],
    sends: [{ kind: 'http', json: '{"method":"POST","url":"https://example.com/"}' }],
    response: { status: 201 },
  });
});

test('a long answer is cut', async () => {
  const answer = await testRun('for (let i = 0; i < 1500; i++) this.$emit(i);');
  expect([answer.emitted.length, answer.truncated]).toEqual([1000, true]);
});

test('an effect that does not fit into the answer is left out; later ones that fit are shown', async () => {
  const large = await testRun(`this.$emit('x'.repeat(5 * 1024 * 1024));
    this.$emit('small');
    console.log('later');
    await this.http.respond({ status: 201 });`);
  expect(large).toMatchObject({
    emitted: [{ payload: '"small"' }],
    logs: [{ msg: 'later' }],
    response: { status: 201 },
    truncated: true,
  });
  const text = `'é'.repeat(1024 * 1024)`;
  const bytes = await testRun(`this.$emit(${text}); this.$emit(${text});`);
  expect([bytes.emitted.length, bytes.truncated]).toEqual([1, true]);
  const exporting = `const { $ } = event;
    for (const last of ['a', 'b']) $.export('name', 'x'.repeat(2.5 * 1024 * 1024) + last);`;
  const replaced = await testRun(exporting, {}, {}, 'action');
  expect([replaced.exports[0]!.json.at(-2), replaced.truncated]).toEqual(['b', false]);
});

test('a test run counts as an invocation, and is refused over the quota', async () => {
  await t.store.collection(users).insert(userRow({ daily_invocations_quota: 1 }));
  const day = usageDay(Date.now());
  const id = `${OWNER}/${day}`;
  await t.store
    .collection(usage)
    .increment(id, { invocations: 1 }, { id, day, invocations: 0, compute_ms: 0 });
  await expect(testRun('this.$emit(1);')).rejects.toMatchObject({ status: 429, code: 'quota_exceeded' });
});

test('code that is not saved is refused without memory for it, and gives back what it took', async () => {
  const { deployments } = t.memory;
  let release = () => {};
  t.faults.execute = () => {
    // While the definition is read.
    release = deployments.count(deployments.total);
  };
  await expect(testRun('this.$emit(1);')).rejects.toMatchObject({ status: 503 });
  release();
  expect(deployments.used).toBe(0);
  const taken: number[] = [];
  t.faults.execute = () => void taken.push(deployments.used);
  await testRun('this.$emit(1);');
  await testRun('throw new Error("thrown");');
  // Each definition is read first.
  expect(taken.map((used) => used > 100)).toEqual([true, true, true, true]);
  expect(deployments.used).toBe(0);
});

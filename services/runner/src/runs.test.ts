import { describe, expect, test } from '@jest/globals';
import { MAX_HOPS } from '@wellspring/contract/messages';
import { formatOrderingKey } from '@wellspring/core/ordering-key';
import { outbox } from '@wellspring/store/collections/outbox';
import { sources } from '@wellspring/store/collections/sources';
import { states } from '@wellspring/store/collections/states';
import { usage } from '@wellspring/store/collections/users';
import { eventually } from '@wellspring/testing/eventually';
import { numbers } from '@wellspring/testing/numbers';
import { OWNER } from '@wellspring/testing/rows';
import { COUNTING, ECHO, usePlatform } from './platform.fixture.ts';

const t = usePlatform();

describe('runs of a source', () => {
  test('execute and commit in order of arrival', async () => {
    const id = await t.deploy(COUNTING);
    await t.runToEnd(id, numbers(200));
    const expected = numbers(200).map((n) => [n, n + 1]);
    expect(await t.events(id)).toEqual(expected);
    expect(t.publishedPayloads()).toEqual(expected);
    expect((await t.store.collection(states).get(id))!.db).toEqual({ n: '200' });
    // Outbox rows are removed shortly after publishing.
    await t.outboxIsEmpty();
  });

  test('redelivered after their commit emit nothing twice', async () => {
    const id = await t.deploy(COUNTING);
    let failures = 2;
    t.faults.publish = (queue) => {
      if (queue === 'emitted' && failures-- > 0) throw new Error('the queue is gone');
    };
    await t.runToEnd(id, numbers(20));
    const expected = numbers(20).map((n) => [n, n + 1]);
    expect(await t.events(id)).toEqual(expected);
    expect(new Set(t.publishedPayloads().map(([n]) => n))).toEqual(new Set(numbers(20)));
  });

  test.each(['refuse', 'throw'] as const)('keep their order when a commit fails (%s)', async (how) => {
    const id = await t.deploy(COUNTING);
    let commits = 0;
    t.faults.commit = () => {
      commits += 1;
      if (commits !== 5 && commits !== 17) return undefined;
      if (how === 'throw') throw new Error('the disk is full');
      return 'refuse';
    };
    await t.runToEnd(id, numbers(40));
    expect(await t.events(id)).toEqual(numbers(40).map((n) => [n, n + 1]));
    expect(t.publishedPayloads()).toEqual(numbers(40).map((n) => [n, n + 1]));
  });

  test('keep their order when the sandbox fails', async () => {
    const id = await t.deploy(COUNTING);
    let calls = 0;
    t.faults.execute = () => {
      calls += 1;
      if (calls === 3 || calls === 30) throw new Error('no process can be started');
    };
    await t.runToEnd(id, numbers(40));
    expect(await t.events(id)).toEqual(numbers(40).map((n) => [n, n + 1]));
  });

  test('do not start behind one that failed to commit', async () => {
    const id = await t.deploy(`export default { name: 'Slow', async run(event) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      this.$emit(event);
    } };`);
    let calls = 0;
    let refused = false;
    t.faults.execute = () => {
      calls += 1;
    };
    t.faults.commit = () => {
      if (refused || calls < 20) return undefined;
      refused = true;
      return 'refuse';
    };
    await t.runToEnd(id, numbers(60));
    expect(await t.events(id)).toEqual(numbers(60));
    // Only the pipelined runs execute twice, not the whole batch.
    expect(calls).toBeLessThan(2 * 60);
  });

  test('continue from the state that another writer stored', async () => {
    const id = await t.deploy(COUNTING);
    await t.runToEnd(id, ['first']);
    const rows = t.store.collection(states);
    const { row, version } = (await rows.getVersioned(id))!;
    await rows.replace({ ...row, db: { n: '100' } }, version);
    await t.runToEnd(id, ['second']);
    expect(await t.events(id)).toEqual([
      ['first', 1],
      ['second', 101],
    ]);
  });

  test('commit what they emitted and set before they threw', async () => {
    const id = await t.deploy(`export default { name: 'Throwing', props: { db: '$.service.db' }, run() {
      const n = (this.db.get('n') ?? 0) + 1;
      this.db.set('n', n);
      this.$emit(n);
      throw new TypeError('on purpose');
    } };`);
    await t.runToEnd(id, ['a', 'b']);
    expect(await t.events(id)).toEqual([1, 2]);
    const errors = (await t.events(id, '$errors')) as Record<string, Record<string, unknown>>[];
    expect(errors.map(({ original_event }) => original_event)).toEqual(['a', 'b']);
    expect(errors[0]!.error).toMatchObject({ code: 'TypeError', msg: 'on purpose', cellId: null });
    expect(errors[0]!.original_context).toMatchObject({
      source_id: id,
      owner_id: OWNER,
      source_type: 'MANUAL',
    });
    expect(t.publishedPayloads('$errors')).toHaveLength(2);
  });

  test('use a redeployment from the next job on and keep the state', async () => {
    const id = await t.deploy(COUNTING);
    await t.runToEnd(id, ['old']);
    await t.replaceCode(id, COUNTING.replace('[event, n]', "[event, n, 'new code']"));
    await t.runToEnd(id, ['new']);
    expect(await t.events(id)).toEqual([
      ['old', 1],
      ['new', 2, 'new code'],
    ]);
  });

  test('of an inactive source are dropped, its log and the waiting caller are told', async () => {
    const id = await t.deploy(ECHO, { active: false });
    const replies = t.call.openReplyAddress();
    await t.runAll(id, ['dropped'], { reply_to: replies.address });
    expect(await replies.receive(5000)).toEqual({ kind: 'refused' });
    await t.quiet();
    const msg = expect.stringMatching(/^The run accepted at .* was skipped\. The source is inactive\.$/);
    expect(await t.logs(id)).toMatchObject([
      { level: 'warn', msg },
      { k: 'end', emitted: 0 },
    ]);
    await t.store.collection(sources).patch(id, { active: true });
    await t.runToEnd(id, ['kept']);
    expect(await t.events(id)).toEqual(['kept']);
  });

  test('of a deleted source are dropped', async () => {
    await t.runToEnd('dc_0000000000', ['dropped']);
    expect((await t.queue.deadLetters.list()).length).toBe(0);
  });

  test('at the tenth hop must not emit and report it on $errors', async () => {
    const id = await t.deploy(ECHO);
    await t.runAll(id, ['still'], { hop: MAX_HOPS - 1 });
    await t.runToEnd(id, ['refused'], { hop: MAX_HOPS });
    expect(await t.events(id)).toEqual(['still']);
    expect(await t.events(id, '$errors')).toMatchObject([{ error: { code: 'LoopError' } }]);
  });

  test('are counted for their owner', async () => {
    const id = await t.deploy(ECHO);
    await t.runToEnd(id, numbers(3));
    const rows = await eventually(async () => {
      const found = await t.store.collection(usage).list();
      expect(found).toMatchObject([{ invocations: 3 }]);
      return found;
    });
    expect(rows[0]!.id.startsWith(`${OWNER}/`)).toBe(true);
  });
});

describe('with concurrency', () => {
  test('runs execute concurrently and lose nothing', async () => {
    const id = await t.deploy(
      `export default { name: 'Beside', async run(event) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        this.$emit(event);
      } };`,
      { concurrency: 4 },
    );
    for (const n of numbers(24)) {
      await t.queue.publish('runs', {
        key: formatOrderingKey({ sourceId: id, shard: n % 4 }),
        payload: JSON.stringify({
          v: 1,
          type: 'run',
          run_id: `run_${n}`,
          source_id: id,
          hop: 0,
          trace_id: '',
          accepted_at: 0,
          trigger: { kind: 'manual', payload: String(n) },
        }),
      });
    }
    await t.quiet();
    expect(new Set(await t.events(id))).toEqual(new Set(numbers(24)));
    expect(await t.events(id)).toHaveLength(24);
  });
});

test('events that were committed but not published are published after a restart', async () => {
  const id = await t.deploy(
    `export default { name: 'Hooked', hooks: { deploy() { this.$emit('from the hook'); } }, run() {} };`,
  );
  t.faults.publish = () => {
    throw new Error('the queue is gone');
  };
  expect(await t.hook(id, 'deploy')).toEqual({ ok: true });
  const [left] = await t.store.collection(outbox).list();
  expect(t.publishedPayloads()).toEqual([]);
  await t.store.collection(outbox).patch(left!.id, { created_at_ms: 0 });
  t.faults.publish = () => {};
  await t.restart();
  await t.outboxIsEmpty();
  await t.quiet();
  expect(t.publishedPayloads()).toEqual(['from the hook']);
});

test('a message of a newer version waits, with what follows it, and holds up no other source', async () => {
  const [id, other] = [await t.deploy(ECHO), await t.deploy(ECHO)];
  await t.queue.publish('runs', { key: id, payload: '{"v":2,"type":"run"}' });
  await t.runAll(other, ['after']);
  await eventually(async () => (await t.events(other)).length === 1);
  // The run is acknowledged after its events can be read.
  await eventually(async () => (await t.queue.depth('runs')) === 1);
  expect(await t.queue.deadLetters.count()).toBe(0);
});

test('a message that is malformed goes to the dead letters at once, without those of its batch', async () => {
  const id = await t.deploy(ECHO);
  for (const payload of ['{"v":1,"type":"walk"}', '{"v":1'])
    await t.queue.publish('runs', { key: id, payload });
  await t.runAll(id, ['after']);
  await eventually(async () => (await t.events(id)).length === 1);
  expect(await t.queue.deadLetters.list()).toMatchObject([
    { queue: 'runs', attempts: 1, reason: expect.stringMatching(/not JSON/) },
    { queue: 'runs', attempts: 1, reason: expect.stringMatching(/Unknown message/) },
  ]);
});

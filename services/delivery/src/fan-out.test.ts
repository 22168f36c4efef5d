import { describe, expect, test } from '@jest/globals';
import type { RunJob } from '@wellspring/contract/messages';
import { deleteWebhookRows } from '@wellspring/store/collections/delete-webhook';
import { removeLostSubscriptions } from '@wellspring/store/collections/subscription-reach';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { members } from '@wellspring/store/collections/users';
import { webhooks } from '@wellspring/store/collections/webhooks';
import { eventually } from '@wellspring/testing/eventually';
import { numbers } from '@wellspring/testing/numbers';
import { OWNER } from '@wellspring/testing/rows';
import { Webhook } from 'standardwebhooks';
import { LISTENERS_MAX_AGE_MS } from './current-webhook.ts';
import { event, eventsOf, usePlatform } from './platform.fixture.ts';

const t = usePlatform();

type Subscribed = Awaited<ReturnType<typeof t.subscribed>>;

/** Emits a message with so many events to a webhook, which changes before its first delivery is answered. */
async function fannedOut(
  events: number,
  change: (subscribed: Subscribed) => Promise<unknown>,
): Promise<Subscribed> {
  let changed: Promise<unknown> | undefined;
  const subscribed = await t.subscribed(async () => {
    changed ??= change(subscribed);
    await changed;
    return { status: 200 };
  });
  t.start();
  await t.emit(
    subscribed.emitter,
    Array.from({ length: events }, (_, n) => event(n)),
  );
  return subscribed;
}

describe('fan-out', () => {
  test('every listener of the channel gets the event once, with the emitted payload', async () => {
    const [emitter, sink] = [await t.source(), await t.receive()];
    const listening = await t.webhook(`${sink.url}/listening?a=b`);
    await t.subscribe(emitter, listening.id);
    await t.subscribe('dc_*', listening.id);
    await t.subscribe(OWNER, listening.id);
    await t.subscribe(emitter, (await t.webhook(`${sink.url}/named`)).id, 'größe ✓');
    await t.subscribe(emitter, (await t.webhook(`${sink.url}/off`, { active: false })).id);
    await t.subscribe(await t.source(), (await t.webhook(`${sink.url}/other`)).id);
    t.start();
    const payload = { z: 1, a: 'größe \u2028 \ud800', n: 1e21 };
    await t.emit(emitter, [event(payload), event(2, 'größe ✓'), event(3, 'unheard')]);
    await sink.received(2);
    await t.untilStatus('delivered', 2);
    const [first, second] = [...sink.requests].sort((a, b) => (a.path < b.path ? -1 : 1));
    expect([first!.path, first!.text]).toEqual(['/listening?a=b', JSON.stringify(payload)]);
    expect([second!.path, second!.text]).toEqual(['/named', '2']);
    expect(decodeURIComponent(String(second!.headers['x-wellspring-event-name']))).toBe('größe ✓');
    expect(first!.headers).toMatchObject({
      'x-wellspring-emitter-id': emitter,
      'x-wellspring-delivery-attempt': '1',
      'x-wellspring-hop-count': '1',
    });
    new Webhook(listening.secret).verify(first!.text, first!.headers as never);
    expect(await t.deliveries()).toHaveLength(2);
  });

  test('listening sources run with the event, one hop further, under a deterministic id', async () => {
    const [emitter, listener, off] = [await t.source(), await t.source(), await t.source({ active: false })];
    for (const one of [listener, off]) await t.subscribe(emitter, one);
    t.start();
    const emitted = event({ a: 1 });
    await t.emit(emitter, [emitted], { hop: 3, run_id: 'run_1' });
    await t.emit(emitter, [emitted], { hop: 3, run_id: 'run_1' });
    const [first, second] = (await t.runs(2)) as RunJob[];
    expect(first).toMatchObject({
      type: 'run',
      source_id: listener,
      hop: 4,
      trace_id: 'trace',
      trigger: {
        kind: 'event',
        payload: '{"a":1}',
        emitter_id: emitter,
        event_id: emitted.event_id,
        event_name: '',
      },
    });
    expect(second!.run_id).toBe(first!.run_id);
    expect(second!.redelivered).toBe(undefined);
    await t.emit(emitter, [emitted], { hop: 3, run_id: 'run_1', redelivered: true });
    expect(((await t.runs(1)) as RunJob[])[0]).toMatchObject({ run_id: first!.run_id, redelivered: true });
  });

  test('runs of a listening source with concurrency are spread over its shards, again the same when repeated', async () => {
    const [emitter, listener] = [await t.source(), await t.source({ concurrency: 3 })];
    await t.subscribe(emitter, listener);
    t.start();
    const list = numbers(6).map((n) => event(n));
    for (let times = 0; times < 2; times += 1) await t.emit(emitter, list, { run_id: 'run_1' });
    const keys = new Map<string, Set<string>>();
    const taken = new AbortController();
    let count = 0;
    await t.queue.consume(
      'runs',
      async ([job]) => {
        const { run_id } = JSON.parse(job.payload) as RunJob;
        keys.set(run_id, (keys.get(run_id) ?? new Set()).add(job.key));
        count += 1;
        if (count === 12) taken.abort();
      },
      { signal: taken.signal },
    );
    expect([...keys.values()].map(({ size }) => size)).toEqual(numbers(6).map(() => 1));
    const shards = [...keys.values()].flatMap((some) => [...some]).sort();
    expect(shards).toEqual([0, 0, 1, 1, 2, 2].map((shard) => `${listener}#${shard}`));
  });

  test('runs of one message are numbered per channel and listener, independently of other listeners', async () => {
    const [emitter, listener] = [await t.source(), await t.source()];
    await t.subscribe(emitter, listener);
    const list = [event(0), event('a', 'named'), event(1), event('b', 'named'), event(2)];
    t.start();
    await t.emit(emitter, list, { run_id: 'run_1' });
    const ids = (await t.runs(3)).map(({ run_id }) => run_id);
    const stem = ids[0]!.slice(0, -'-0'.length);
    expect(ids).toEqual([`${stem}-0`, `${stem}-1`, `${stem}-2`]);
    await t.subscribe(emitter, listener, 'named');
    await t.emit(emitter, list, { run_id: 'run_1' });
    const repeated = (await t.runs(5)).map(({ run_id }) => run_id);
    expect(repeated.filter((id) => id.startsWith(stem))).toEqual(ids);
    const [other] = repeated.filter((id) => !id.startsWith(stem));
    expect(repeated[1]).toBe(other);
    expect(repeated[3]).toBe(other!.replace(/0$/, '1'));
  });

  test('a repeated message delivers nothing twice', async () => {
    const { emitter, sink } = await t.subscribed();
    t.start();
    const emitted = event(1);
    await t.emit(emitter, [emitted]);
    await t.untilStatus('delivered');
    await t.emit(emitter, [emitted, event(2)], { redelivered: true });
    await t.untilStatus('delivered', 2);
    expect(sink.requests.map(({ text }) => text)).toEqual(['1', '2']);
  });

  test.each([
    ['deleted', (id: string) => deleteWebhookRows(t.store, id)],
    ['paused', (id: string) => t.store.collection(webhooks).patch(id, { active: false })],
  ])('a webhook that is %s gets no more of a message with many events', async (_what, change) => {
    const { sink } = await fannedOut(1000, async ({ hook }) => {
      await change(hook.id);
      t.clock.advance(LISTENERS_MAX_AGE_MS);
    });
    await eventually(() => sink.requests.length > 0);
    await t.quiet();
    // Others wait for the permit of the first attempt.
    expect(sink.requests.length).toBe(1);
    expect((await t.deliveries()).length).toBe(1);
  });

  test('the new URL of a webhook gets the rest of a message with many events', async () => {
    const { sink } = await fannedOut(500, ({ hook, sink }) =>
      t.store.collection(webhooks).patch(hook.id, { url: `${sink.url}/new` }),
    );
    await t.untilStatus('delivered', 500);
    expect(sink.requests.filter(({ path }) => path === '/new').length).toBeGreaterThanOrEqual(500 - 256);
  });

  test.each([
    ['wait for their permits', 2],
    ['are attempted', 20],
  ])('a webhook gets its events while many for other webhooks of the source %s', async (_what, count) => {
    const health = { failures: 0, tried_at: 1 };
    const { emitter, sink } = await t.subscribed(() => 200, health);
    const slow = await t.receive(() => 'hang');
    for (const _ of numbers(count)) await t.subscribe(emitter, (await t.webhook(slow.url, health)).id);
    // The attempts and the waits for their permits do not end by themselves.
    t.options.timeout = () => () => {};
    t.start();
    for (const one of eventsOf(200)) await t.emit(emitter, [one]);
    await sink.received(200);
  });

  test('$errors and events with the same event id are two events', async () => {
    const { emitter, sink, hook } = await t.subscribed();
    await t.subscribe(emitter, hook.id, '$errors');
    t.start();
    const emitted = event('event');
    await t.emit(emitter, [emitted, { ...emitted, name: '$errors', payload: '"error"' }]);
    await t.untilStatus('delivered', 2);
    expect(sink.requests.map(({ text }) => text).sort()).toEqual(['"error"', '"event"']);
  });

  test('subscriptions reach only what their owner or creator may still access', async () => {
    const org = 'o_0000000001';
    const [member, stranger] = ['u_0000000002', 'u_0000000003'];
    await t.store.collection(members).insert({ id: `${org}/${member}`, org_id: org, user_id: member });
    const sink = await t.receive();
    const emitter = await t.source({ owner_id: org });
    const hook = async (path: string, owner_id: string) =>
      (await t.webhook(`${sink.url}/${path}`, { owner_id })).id;
    await t.subscribe(emitter, await hook('member', member), '', member, member);
    await t.subscribe(emitter, await hook('stranger', stranger), '', stranger, stranger);
    await t.subscribe(emitter, await hook('of-org', org), '', org, stranger);
    await t.subscribe(emitter, await hook('lent-by-member', member), '', org, member);
    await t.subscribe(emitter, await hook('lent-by-stranger', stranger), '', org, stranger);
    await t.subscribe('dc_*', await hook('glob-of-member', member), '', member, member);
    await t.subscribe('dc_*', await hook('glob-of-org', org), '', org, member);
    await t.subscribe(org, await hook('owner', member), '', member, member);
    t.start();
    await t.emit(emitter, [event(1)], { owner_id: org });
    await t.untilStatus('delivered', 5);
    const paths = () => sink.requests.map(({ path }) => path).sort();
    expect(paths()).toEqual(['/glob-of-org', '/lent-by-member', '/member', '/of-org', '/owner']);
    await t.store.collection(members).remove(`${org}/${member}`);
    sink.clear();
    await t.emit(emitter, [event(2)], { owner_id: org });
    await t.untilStatus('delivered', 7);
    expect(paths()).toEqual(['/glob-of-org', '/of-org']);
    const rows = t.store.collection(subscriptions);
    await removeLostSubscriptions(t.store, member);
    // Left: the glob over his own emitters, and the subscription of the organization to its own emitters.
    expect((await rows.list({ where: { user_id: member } })).map((row) => row.emitter_id).sort()).toEqual([
      'dc_*',
      'dc_*',
    ]);
  });

  test('a message of a newer version waits and holds up no other emitter', async () => {
    const { emitter, sink } = await t.subscribed();
    await t.queue.publish('emitted', { key: await t.source(), payload: '{"v":2,"type":"emitted"}' });
    await t.emit(emitter, [event(1)]);
    t.start();
    await sink.received(1);
    // The other message is done once its delivery has a row.
    await eventually(async () => expect(await t.queue.depth('emitted')).toBe(1));
    expect(await t.queue.deadLetters.count()).toBe(0);
  });

  test('a malformed message becomes a dead letter and blocks no other', async () => {
    const { emitter, sink } = await t.subscribed();
    await t.queue.publish('emitted', { key: emitter, payload: '{"v":1,"type":"omitted"}' });
    await t.queue.publish('emitted', { key: emitter, payload: 'no JSON' });
    await t.emit(emitter, [event(1)]);
    t.start();
    await sink.received(1);
    expect(await t.queue.deadLetters.list()).toHaveLength(2);
  });
});

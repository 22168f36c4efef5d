import { describe, expect, test } from '@jest/globals';
import type { RecordJob } from '@wellspring/contract/messages';
import { systemClock } from '@wellspring/core/clock';
import { Unavailable } from '@wellspring/core/unavailable';
import { newWebhookSecret } from '@wellspring/core/webhook-signature';
import { attemptsOf, webhooks } from '@wellspring/store/collections/webhooks';
import { seal } from '@wellspring/testing/service-harness';
import { Webhook } from 'standardwebhooks';
import { DAY, event, type Respond, until, usePlatform } from './platform.fixture.ts';
import { webhookIdOf } from './request.ts';

const t = usePlatform();

describe('attempts', () => {
  const delivering = async (respond: Respond) => {
    const subscribed = await t.subscribed(respond);
    t.start();
    return subscribed;
  };

  test('a failed delivery is retried when due, with the same id and a new signature', async () => {
    const { emitter, sink, hook } = await delivering((_, n) => (n < 3 ? 500 : 204));
    await t.emit(emitter, [event('größe')]);
    for (const wait of [6_000, 6 * 60_000]) {
      const [row] = await until(
        t.deliveries,
        ([one]) => one?.attempts === sink.requests.length && sink.requests.length > 0,
      );
      expect(row!.status).toBe('pending');
      const before = sink.requests.length;
      t.clock.advance(wait / 6);
      expect(sink.requests.length).toBe(before);
      t.clock.advance(wait);
      await sink.received(before + 1);
    }
    const [row] = await t.untilStatus('delivered');
    expect(row!.attempts).toBe(3);
    expect(attemptsOf(row!).map(({ n, status }) => [n, status])).toEqual([
      [1, 500],
      [2, 500],
      [3, 204],
    ]);
    expect(sink.requests.map(({ headers }) => headers['x-wellspring-delivery-attempt'])).toEqual([
      '1',
      '2',
      '3',
    ]);
    expect(new Set(sink.requests.map(({ headers }) => headers['webhook-id']))).toEqual(
      new Set([webhookIdOf(row!)]),
    );
    expect(new Set(sink.requests.map(({ headers }) => headers['webhook-timestamp'])).size).toBe(3);
    for (const { text, headers } of sink.requests) {
      // The library compares the timestamp with the system's clock.
      const now = String(Math.floor(systemClock.now() / 1000));
      if (headers['webhook-timestamp'] === now) new Webhook(hook.secret).verify(text, headers as never);
      expect(text).toBe('"größe"');
    }
  });

  test('the log keeps the beginning of each response, and why there was none', async () => {
    const { emitter } = await delivering((_, n) => {
      if (n === 1) return { status: 503, headers: { 'x-reason': 'busy' }, body: 'ä'.repeat(40_000) };
      return 200;
    });
    await t.emit(emitter, [event(1)]);
    const failed = await t.untilAttempts(1);
    t.clock.advance(6_000);
    const [row] = await t.untilStatus('delivered');
    expect(attemptsOf(failed)[0]).toMatchObject({
      status: 503,
      headers: { 'x-reason': 'busy' },
      body: 'ä'.repeat(2_048),
    });
    expect(attemptsOf(row!)[1]).toMatchObject({ status: 200, error: null });
    expect(attemptsOf(row!)[1]!.body).toBeUndefined();
  });

  test('the user info of a URL is sent as Basic; a % that begins no escape stands for itself', async () => {
    const [emitter, sink] = [await t.source(), await t.receive()];
    for (const userInfo of ['me:p%C3%A4ss', 'me:100%', '%:p%C3%A4%']) {
      const { id } = await t.webhook(sink.url.replace('//', `//${userInfo}@`));
      await t.subscribe(emitter, id);
    }
    t.start();
    await t.emit(emitter, [event(1)]);
    await t.untilStatus('delivered', 3);
    const sent = sink.requests.map(({ headers }) => headers.authorization!.split(' '));
    expect(sent.map(([, encoded]) => Buffer.from(encoded!, 'base64').toString()).sort()).toEqual([
      '%:pä%',
      'me:100%',
      'me:päss',
    ]);
  });

  test('410 fails the delivery and disables the webhook', async () => {
    const { emitter, sink, hook } = await delivering(() => 410);
    await t.emit(emitter, [event(1)]);
    const [row] = await t.untilStatus('failed');
    expect(row).toMatchObject({ attempts: 1, due_at: null });
    expect(row!.failed_at_ms).not.toBeNull();
    expect(await t.store.collection(webhooks).get(hook.id)).toMatchObject({ active: false });
    await t.emit(emitter, [event(2)]);
    await t.quiet();
    expect([await t.deliveries(), sink.requests].map(({ length }) => length)).toEqual([1, 1]);
  });

  test('redirects are not followed and count as failures', async () => {
    const target = await t.receive();
    const { emitter } = await delivering(() => ({ status: 302, headers: { location: target.url } }));
    await t.emit(emitter, [event(1)]);
    const row = await t.untilAttempts(1);
    expect(row.status).toBe('pending');
    expect(attemptsOf(row)).toMatchObject([{ status: 302 }]);
    expect(target.requests).toEqual([]);
  });

  test('an unreachable or forbidden address is retried, and the log says why', async () => {
    const gone = await t.receive();
    await gone.close();
    const emitter = await t.source();
    for (const url of [gone.url, 'http://10.0.0.1/', 'http://no-such-host.invalid/']) {
      await t.subscribe(emitter, (await t.webhook(url)).id);
    }
    // A name server may take longer to say so than an attempt lasts.
    t.options.resolve = (name, _, callback) => callback(new Error(`getaddrinfo ENOTFOUND ${name}`), []);
    t.start();
    await t.emit(emitter, [event(1)]);
    const rows = await until(t.deliveries, (all) => all.filter((row) => row.attempts === 1).length === 3);
    for (const row of rows) {
      expect(row.status).toBe('pending');
      expect(attemptsOf(row)).toMatchObject([{ status: null }]);
    }
    expect(rows.map((row) => attemptsOf(row)[0]!.error).sort()).toEqual([
      expect.stringContaining('not a public address'),
      expect.stringContaining('ECONNREFUSED'),
      expect.stringMatching(/^getaddrinfo ENOTFOUND no-such-host.invalid/),
    ]);
  });

  test('the tenth failure is final', async () => {
    const { emitter, sink } = await delivering(() => 500);
    await t.emit(emitter, [event(1)]);
    for (let n = 1; n < 10; n++) {
      const row = await t.untilAttempts(n);
      t.clock.advance(row.due_at! - t.clock.now() + 1);
    }
    const [row] = await t.untilStatus('failed');
    expect(row).toMatchObject({ attempts: 10, due_at: null });
    expect(sink.requests).toHaveLength(10);
  });

  test('five days without a success disable the webhook and notify its emitters once', async () => {
    const { emitter, hook } = await delivering(() => 500);
    const [second, foreign] = [await t.source(), await t.source({ owner_id: 'u_0000000009' })];
    await t.subscribe(second, hook.id, 'orders');
    await t.subscribe(foreign, hook.id);
    await t.emit(emitter, [event(1)]);
    await t.untilAttempts(1);
    expect(await t.store.collection(webhooks).get(hook.id)).toMatchObject({ active: true });
    t.clock.advance(5 * DAY + 60_000);
    const jobs = (await t.runs(2)) as RecordJob[];
    expect(jobs.map((job) => [job.type, job.channel, job.source_id]).sort()).toEqual(
      [emitter, second].map((id) => ['record', '$errors', id]).sort(),
    );
    expect(JSON.parse(jobs[0]!.payload)).toMatchObject({
      original_event: null,
      error: { code: 'WebhookDisabled', msg: expect.stringContaining(hook.id) },
    });
    await until(
      () => t.store.collection(webhooks).get(hook.id),
      (row) => row?.active === false,
    );
    await t.untilAttempts(2);
    t.clock.advance(DAY);
    // When due, it fails without an attempt: the webhook is disabled.
    expect(await t.untilStatus('failed')).toMatchObject([{ attempts: 2 }]);
    expect(await t.queue.depth('runs')).toBe(0);
  });

  test('a success resets the five days', async () => {
    const { emitter, hook } = await delivering((_, n) => (n === 1 ? 500 : 200));
    await t.emit(emitter, [event(1)]);
    await until(
      () => t.store.collection(webhooks).get(hook.id),
      (row) => row?.failing_since !== null,
    );
    await t.untilAttempts(1);
    t.clock.advance(10_000);
    await t.untilStatus('delivered');
    expect(await t.store.collection(webhooks).get(hook.id)).toMatchObject({
      failing_since: null,
      active: true,
    });
  });

  test('a success that could not be stored is stored with the next one', async () => {
    const failing = { failures: 3, tried_at: 1, failing_since: 1 };
    const { emitter, hook } = await t.subscribed(() => 200, failing);
    const rows = t.store.collection(webhooks);
    const { patch } = rows;
    rows.patch = async () => {
      Object.assign(rows, { patch });
      throw new Unavailable('at the moment');
    };
    t.start();
    await t.emit(emitter, [event(1)]);
    await t.untilStatus('delivered', 1);
    expect(await rows.get(hook.id)).toMatchObject(failing);
    await t.emit(emitter, [event(2)]);
    await t.untilStatus('delivered', 2);
    expect(await rows.get(hook.id)).toMatchObject({ failures: 0, failing_since: null });
  });

  test('a webhook that goes on to succeed is not disabled for a failure that another process saw', async () => {
    const { emitter, sink, hook } = await delivering((_, n) => (n === 4 ? 500 : 200));
    const rows = t.store.collection(webhooks);
    await t.emit(emitter, [event(1)]);
    await t.untilStatus('delivered', 1);
    // The other process ends before it sees a success.
    const failedAt = t.clock.now();
    await rows.patch(hook.id, { failures: 1, failing_since: failedAt, tried_at: failedAt });
    t.clock.advance(1);
    await t.emit(emitter, [event(2)]);
    await t.untilStatus('delivered', 2);
    t.clock.advance(5 * DAY);
    await t.emit(emitter, [event(3)]);
    await t.untilStatus('delivered', 3);
    await t.emit(emitter, [event(4)]);
    await sink.received(4);
    await until(
      () => rows.get(hook.id),
      (row) => row!.failing_since !== failedAt || !row!.active,
    );
    const row = await until(
      () => rows.get(hook.id),
      (row) => row!.failures === 1 && row!.tried_at > failedAt,
    );
    expect(row).toMatchObject({ active: true });
    expect(row!.failing_since).toBeGreaterThan(failedAt);
  });

  test('after a rotation the former secrets sign, too, for a day', async () => {
    const { emitter, sink, hook } = await delivering(() => 200);
    const [secret, older] = [newWebhookSecret(), newWebhookSecret()];
    const rotate = (until: number) =>
      t.store.collection(webhooks).patch(hook.id, {
        secret: seal.seal(secret, hook.id),
        old_secret: seal.seal(hook.secret, hook.id),
        old_secret_until: until,
        older_secrets: [{ secret: seal.seal(older, hook.id), until }],
      });
    await rotate(t.clock.now() + DAY);
    await t.emit(emitter, [event(1)]);
    const [all] = await sink.received(1);
    for (const one of [secret, hook.secret, older]) new Webhook(one).verify(all!.text, all!.headers as never);
    await rotate(t.clock.now() - 1);
    await t.emit(emitter, [event(2)]);
    const [, fresh] = await sink.received(2);
    new Webhook(secret).verify(fresh!.text, fresh!.headers as never);
    for (const one of [hook.secret, older])
      expect(() => new Webhook(one).verify(fresh!.text, fresh!.headers as never)).toThrow();
  });

  test('a deleted webhook receives nothing, and its deliveries are removed', async () => {
    const { emitter, sink, hook } = await delivering(() => 500);
    await t.emit(emitter, [event(1)]);
    await t.untilAttempts(1);
    await t.store.collection(webhooks).remove(hook.id);
    t.clock.advance(10_000);
    await until(t.deliveries, (rows) => rows.length === 0);
    expect(sink.requests).toHaveLength(1);
  });
});

import { randomBytes } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { consume } from '@wellspring/amqp/channel';
import { openAmqp } from '@wellspring/amqp/client';
import { newSecret } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import { eventually } from '@wellspring/testing/eventually';
import { forSuite } from '@wellspring/testing/lifetimes';
import { openNetwork } from '@wellspring/testing/network';
import { startRabbit } from '@wellspring/testing/servers/rabbitmq';
import { withPrograms, withServers } from '@wellspring/testing/servers/servers';
import { callConformance } from '../conformance.ts';
import { type Call, CallFailed } from '../port.ts';
import { openCall } from './call.fixture.ts';

/** Resolves when its channel is open: messages are sent at once. */
const untilOpen = (call: Call) =>
  eventually(async () => {
    const replyAddress = call.openReplyAddress();
    call.reply(replyAddress.address, 1);
    return (await replyAddress.receive(100)) === 1;
  });

/** A handler that never answers, and a promise of its first call. */
function neverAnswering() {
  const begun = Promise.withResolvers<void>();
  const never = () => {
    begun.resolve();
    return new Promise(() => {});
  };
  return { begun, never };
}

await withServers(['rabbitmq'], ({ rabbitmq }) => {
  callConformance('RabbitMQ', async () => {
    const { call } = await openCall(rabbitmq);
    await untilOpen(call);
    return call;
  });

  test('between processes, requests are distributed, keyed requests go to the owner, and replies reach their address', async () => {
    const prefix = `t${newSecret()}.`;
    const owners = new Map([
      ['dc_1', 'one'],
      ['dc_2', 'two'],
    ]);
    const shared = {
      prefix,
      keyed: new Set(['hook']),
      ownerOf: async (key: string) => owners.get(key),
    };
    const stop = new AbortController();
    const calls = await Promise.all(
      ['one', 'two', 'three'].map(async (member) => (await openCall(rabbitmq, { ...shared, member })).call),
    );
    const [one, two, three] = calls as [Call, Call, Call];
    one.serve('hook', async () => 'one', stop.signal);
    two.serve('hook', async () => 'two', stop.signal);
    const released = Promise.withResolvers<void>();
    let busy = 0;
    one.serve(
      'any',
      async () => {
        busy += 1;
        await released.promise;
        return 'one';
      },
      stop.signal,
    );
    const ask = (address: string, key: string) => three.request(address, {}, { key, deadlineMs: 30_000 });
    expect(await Promise.all([ask('hook', 'dc_1'), ask('hook', 'dc_2'), ask('hook', 'dc_1')])).toEqual([
      'one',
      'two',
      'one',
    ]);
    owners.set('dc_1', 'two');
    expect(await ask('hook', 'dc_1')).toBe('two');
    // So many that its answer is as late as possible: the idle one gets the next request.
    const held = Array.from({ length: 40 }, () => ask('any', 'x'));
    await eventually(() => busy === 40);
    two.serve('any', async () => 'two', stop.signal);
    // The broker knows of it before it asks.
    expect(await two.request('any', {}, { deadlineMs: 30_000 })).toBe('two');
    expect(await ask('any', 'x')).toBe('two');
    released.resolve();
    expect(new Set(await Promise.all(held))).toEqual(new Set(['one']));
    const replyAddress = three.openReplyAddress();
    const received = replyAddress.receive(10_000);
    one.reply(replyAddress.address, { status: 201 });
    expect(await received).toEqual({ status: 201 });
    // The key has no owner at first.
    const early = ask('hook', 'dc_3');
    owners.set('dc_3', 'one');
    expect(await early).toBe('one');
    // A server that is gone is skipped.
    await two.close();
    const others = await Promise.all(Array.from({ length: 20 }, () => ask('any', 'x')));
    expect(new Set(others)).toEqual(new Set(['one']));
    stop.abort();
    for (const call of [one, three]) await call.close();
  }, 60_000);

  /** A channel beside those of the calls. */
  async function openRawChannel() {
    const amqp = await openAmqp({ url: rabbitmq, log: silentLog });
    const recovering = amqp.openChannel({ name: 'raw', setup: async () => {} });
    await eventually(() => recovering.current !== undefined);
    return { channel: recovering.current!, [Symbol.asyncDispose]: () => amqp.close() };
  }

  test('a request fails at its deadline while the owner of its key is unknown', async () => {
    const ownerOf = () => new Promise<never>(() => {});
    await using opened = await openCall(rabbitmq, { keyed: new Set(['hook']), ownerOf });
    const request = opened.call.request('hook', 1, { key: 'dc_1', deadlineMs: 50 });
    await expect(request).rejects.toBeInstanceOf(CallFailed);
  });

  test('a message beyond the limit of the broker fails alone, as a request and as an answer', async () => {
    const huge = randomBytes(18 * 1024 * 1024).toString('base64');
    const prefix = `t${newSecret()}.`;
    await using server = await openCall(rabbitmq, { prefix });
    await using caller = await openCall(rabbitmq, { prefix });
    const { signal } = new AbortController();
    const held = Promise.withResolvers<number>();
    server.call.serve('held', () => held.promise, signal);
    server.call.serve('echo', async (message) => message, signal);
    server.call.serve('huge', async () => huge, signal);
    const other = caller.call.request('held', 1, { deadlineMs: 30_000 });
    for (const [address, message] of [
      ['echo', huge],
      ['huge', 1],
    ] as const) {
      const request = caller.call.request(address, message, { deadlineMs: 30_000 });
      expect(await request.then(() => 'answered', String)).toMatch('CallFailed');
    }
    held.resolve(2);
    expect(await other).toBe(2);
  }, 60_000);

  test('a malformed message is logged and dropped', async () => {
    await using raw = await openRawChannel();
    const logged: string[] = [];
    const log = { ...silentLog, error: (_: object, event: string) => logged.push(event) };
    const prefix = `t${newSecret()}.`;
    await using opened = await openCall(rabbitmq, { prefix, log, member: 'one' });
    const { call } = opened;
    const replyAddress = call.openReplyAddress();
    const correlationId = replyAddress.address.split('|')[1]!;
    await eventually(async () => {
      call.reply(replyAddress.address, 1);
      return (await replyAddress.receive(100)) === 1;
    });
    for (const [type, text] of [
      ['request', '{'],
      ['request', 'null'],
      ['reply', '{'],
    ]) {
      raw.channel.publish(`${prefix}call`, 'one', Buffer.from(text!), { type: type!, correlationId });
    }
    await eventually(() => logged.length === 3);
    expect(new Set(logged)).toEqual(new Set(['call.foreign_message']));
  });

  test('the broker drops a request that its process does not take before the deadline', async () => {
    await using raw = await openRawChannel();
    const prefix = `t${newSecret()}.`;
    const options = { prefix, keyed: new Set(['hook']), ownerOf: async () => 'frozen' };
    await using opened = await openCall(rabbitmq, options);
    await raw.channel.assertExchange(`${prefix}call`, 'direct', { durable: true });
    const { queue } = await raw.channel.assertQueue('', { exclusive: true });
    await raw.channel.bindQueue(queue, `${prefix}call`, 'frozen');
    const count = async () => (await raw.channel.checkQueue(queue)).messageCount;
    // Gets the same messages, and takes them.
    const { queue: other } = await raw.channel.assertQueue('', { exclusive: true });
    await raw.channel.bindQueue(other, `${prefix}call`, 'frozen');
    const sent = Promise.withResolvers<void>();
    await consume(raw.channel, other, () => sent.resolve(), { noAck: true });
    await untilOpen(opened.call);
    const request = opened.call
      .request('hook', 1, { key: 'dc_1', deadlineMs: 1_000 })
      .catch((error: unknown) => error);
    await sent.promise;
    expect(await request).toBeInstanceOf(CallFailed);
    await eventually(async () => (await count()) === 0);
  });

  test('a request fails soon when its reply is lost with the connection of the server; the next one succeeds', async () => {
    await using network = await openNetwork(rabbitmq);
    const prefix = `t${newSecret()}.`;
    const { call: caller } = await openCall(rabbitmq, { prefix });
    const { call: server } = await openCall(network.url, { prefix });
    const stop = new AbortController();
    const [begun, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    server.serve(
      'slow',
      async () => {
        begun.resolve();
        await held.promise;
        return 1;
      },
      stop.signal,
    );
    const failure = caller.request('slow', 1, { deadlineMs: 60_000 }).catch((error: unknown) => error);
    await begun.promise;
    network.cut();
    held.resolve();
    expect(await failure).toBeInstanceOf(CallFailed);
    expect(await caller.request('slow', 1, { deadlineMs: 10_000 })).toBe(1);
    stop.abort();
    await server.close();
    await caller.close();
  }, 30_000);

  test('a request fails long before its deadline when its server is frozen; the next one goes to another, with megabytes', async () => {
    await using network = await openNetwork(rabbitmq);
    const prefix = `t${newSecret()}.`;
    const { call: caller } = await openCall(rabbitmq, { prefix });
    const { call: frozen } = await openCall(network.url, { prefix });
    const stop = new AbortController();
    const { begun, never } = neverAnswering();
    frozen.serve('any', never, stop.signal);
    const failure = caller.request('any', 1, { deadlineMs: 60_000 }).catch((error: unknown) => error);
    await begun.promise;
    network.silence();
    expect(await failure).toBeInstanceOf(CallFailed);
    const { call: other } = await openCall(rabbitmq, { prefix });
    other.serve('any', async (message) => message, stop.signal);
    const large = 'x'.repeat(8 * 1024 * 1024);
    expect(await caller.request('any', large, { deadlineMs: 30_000 })).toBe(large);
    stop.abort();
    network.cut();
    for (const call of [frozen, other, caller]) await call.close();
  }, 60_000);

  test('a request fails long before its deadline when its server dies', async () => {
    const prefix = `t${newSecret()}.`;
    const { call: caller } = await openCall(rabbitmq, { prefix });
    const { call: server, amqp } = await openCall(rabbitmq, { prefix });
    const { begun, never } = neverAnswering();
    server.serve('never', never, new AbortController().signal);
    const failure = caller.request('never', 1, { deadlineMs: 60_000 }).catch((error: unknown) => error);
    await begun.promise;
    await amqp.close();
    expect(await failure).toBeInstanceOf(CallFailed);
    await server.close();
    await caller.close();
  });
});

await withPrograms(['rabbitmq'], () => {
  const server = forSuite(startRabbit);

  test('requests, servers and reply addresses recover after a broker restart; requests in progress fail', async () => {
    const { call } = await openCall(server.url);
    const stop = new AbortController();
    call.serve('echo', async (message) => message, stop.signal);
    const { begun, never } = neverAnswering();
    call.serve('never', never, stop.signal);
    expect(await call.request('echo', 1, { deadlineMs: 10_000 })).toBe(1);
    const failure = call.request('never', 1, { deadlineMs: 60_000 }).catch((error: unknown) => error);
    await begun.promise;
    await server.kill();
    expect(await failure).toBeInstanceOf(CallFailed);
    const meanwhile = call.request('echo', 2, { deadlineMs: 60_000 });
    await server.start();
    expect(await meanwhile).toBe(2);
    const replyAddress = call.openReplyAddress();
    call.reply(replyAddress.address, 'here');
    expect(await replyAddress.receive(10_000)).toBe('here');
    stop.abort();
    await call.close();
  }, 90_000);
});

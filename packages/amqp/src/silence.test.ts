import { expect, test } from '@jest/globals';
import { newSecret } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach } from '@wellspring/testing/lifetimes';
import { openNetwork } from '@wellspring/testing/network';
import { withServers } from '@wellspring/testing/servers/servers';
import { ack, consume } from './channel.ts';
import { openAmqp } from './client.ts';

await withServers(['rabbitmq'], ({ rabbitmq: url }) => {
  const closing = closeAfterEach();

  test('when the broker falls silent, publishing fails in bounded time, connections are replaced and later messages arrive', async () => {
    await using network = await openNetwork(url);
    const amqp = await openAmqp({ url: network.url, log: silentLog });
    const queue = `t${newSecret()}`;
    const seen: string[] = [];
    const channel = amqp.openChannel({
      name: queue,
      async setup(channel) {
        await channel.assertQueue(queue, { durable: true, expires: 60_000 });
        await consume(channel, queue, (message) => {
          seen.push(message.content.toString());
          ack(channel, message);
        });
      },
    });
    await eventually(() => channel.current !== undefined);
    const publisher = amqp.openPublisher(queue);
    const publish = (text: string) =>
      publisher.publish({ routingKey: queue, content: Buffer.from(text), options: { mandatory: true } });
    await publish('before');
    await eventually(() => seen.length === 1);

    network.silence();
    let begun = performance.now();
    await expect(amqp.ping()).rejects.toThrow('does not answer');
    expect(performance.now() - begun).toBeLessThan(15_000);
    begun = performance.now();
    await expect(publish('lost')).rejects.toThrow('in time');
    expect(performance.now() - begun).toBeLessThan(30_000);
    network.heal();
    await eventually(() => publish('after').then(() => true), { ms: 15_000 });
    await eventually(() => seen.includes('after'), { ms: 15_000 });
    await amqp.ping();
    await amqp.close();
  }, 60_000);

  test('a message that is not confirmed in time takes the later ones of its key with it, so that none overtakes its repetition', async () => {
    await using network = await openNetwork(url);
    const amqp = closing(await openAmqp({ url: network.url, log: silentLog }));
    const direct = closing(await openAmqp({ url, log: silentLog }));
    const queue = `t${newSecret()}`;
    const seen: string[] = [];
    const channel = direct.openChannel({
      name: queue,
      async setup(made) {
        await made.assertQueue(queue, { durable: true, expires: 60_000 });
        await consume(made, queue, ({ content }) => void seen.push(content.toString()), { noAck: true });
      },
    });
    await eventually(() => channel.current !== undefined);
    const publisher = amqp.openPublisher(queue);
    const publish = (key: string, text: string) =>
      publisher.publish({ routingKey: queue, key, content: Buffer.from(text) }).then(
        () => 'confirmed',
        () => 'failed',
      );
    expect(await publish('a', 'before')).toBe('confirmed');

    network.silence();
    const begun = performance.now();
    const first = publish('a', 'first');
    await eventually(() => performance.now() - begun > 4_000);
    const second = publish('a', 'second');
    // It has as much time as possible for the new connection.
    await eventually(() => performance.now() - begun > 7_000);
    const other = publish('b', 'other');
    expect(await first).toBe('failed');
    network.cut();
    network.heal();
    expect(await Promise.all([second, other])).toEqual(['failed', 'confirmed']);
    expect(await publish('a', 'first')).toBe('confirmed');
    await eventually(() => seen.includes('first'));
    expect(seen).toEqual(['before', 'other', 'first']);
  }, 60_000);

  test('close does not wait for a silent broker', async () => {
    await using network = await openNetwork(url);
    const amqp = await openAmqp({ url: network.url, log: silentLog });
    const channel = amqp.openChannel({ name: 'idle', setup: async () => {} });
    await eventually(() => channel.current !== undefined);
    const publisher = amqp.openPublisher('unheard');
    network.silence();
    const unheard = publisher
      .publish({ routingKey: 'nowhere', content: Buffer.from('x') })
      .catch(() => 'failed');
    const begun = performance.now();
    await amqp.close();
    expect(performance.now() - begun).toBeLessThan(10_000);
    expect(await unheard).toBe('failed');
    expect(amqp.isUp).toBe(false);
  }, 30_000);

  test('an abort does not wait for a broker that never answered', async () => {
    await using network = await openNetwork(url);
    network.silence();
    const stop = new AbortController();
    const waiting = openAmqp({ url: network.url, log: silentLog, signal: stop.signal });
    await eventually(() => network.sockets > 0);
    stop.abort(new Error('never mind'));
    await expect(waiting).rejects.toThrow('never mind');
    await eventually(() => network.sockets === 0, { ms: 1_000 });
  }, 30_000);
});

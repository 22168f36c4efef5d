import { afterEach, expect, test } from '@jest/globals';
import { type Log, silentLog } from '@wellspring/core/log';
import { eventually } from '@wellspring/testing/eventually';
import { freePort } from '@wellspring/testing/free-port';
import { closeAfterEach, forSuite } from '@wellspring/testing/lifetimes';
import { listLog } from '@wellspring/testing/list-log';
import { startRabbit } from '@wellspring/testing/servers/rabbitmq';
import { withPrograms } from '@wellspring/testing/servers/servers';
import { ack, type Channel, type ConsumeMessage, consume } from './channel.ts';
import { type Amqp, openAmqp } from './client.ts';
import { MAX_MESSAGE_BYTES, REDELIVERED, Unroutable } from './publisher.ts';

const QUORUM = { durable: true, arguments: { 'x-queue-type': 'quorum' } };

await withPrograms(['rabbitmq'], () => {
  const server = forSuite(startRabbit);
  const stops: AbortController[] = [];
  let queues = 0;

  afterEach(() => {
    for (const stop of stops.splice(0)) stop.abort();
  });
  const closing = closeAfterEach();

  const open = async (log: Log = silentLog, url = server.url) => closing(await openAmqp({ url, log }));
  /** A consumer that records and acknowledges its messages. */
  function listen(amqp: Amqp, queue: string) {
    const seen: string[] = [];
    const messages: ConsumeMessage[] = [];
    const channels: Channel[] = [];
    let losses = 0;
    const channel = amqp.openChannel({
      name: queue,
      async setup(channel) {
        channels.push(channel);
        await channel.assertQueue(queue, QUORUM);
        await consume(channel, queue, (message) => {
          seen.push(message.content.toString());
          messages.push(message);
          ack(channel, message);
        });
      },
      lost() {
        losses += 1;
      },
    });
    const isReady = () => eventually(() => channel.current !== undefined);
    return { seen, messages, channels, channel, isReady, losses: () => losses };
  }
  const send = (amqp: Amqp, queue: string) => {
    const publisher = amqp.openPublisher(queue);
    return (text: string) =>
      publisher.publish({ routingKey: queue, content: Buffer.from(text), options: { mandatory: true } });
  };
  const newQueue = () => `test-${++queues}`;

  test('unreachable nodes of a cluster are skipped; an unknown vhost is refused as with a single node', async () => {
    const { host } = new URL(server.url);
    const hosts = [`127.0.0.1:${await freePort()}`, host, `127.0.0.1:${await freePort()}`].join();
    for (let n = 0; n < 4; n++) {
      const url = `amqp://guest:guest@${hosts}`;
      expect((await open(silentLog, url)).isUp).toBe(true);
    }
    const nowhere = openAmqp({ url: `amqp://guest:guest@${hosts}/nowhere`, log: silentLog });
    await expect(nowhere).rejects.toThrow(/refuses/);
  });

  test('wrong credentials, an unknown vhost and an invalid URL fail the start without leaking the password; an abort ends the wait for a broker', async () => {
    const url = server.url.replace('guest:guest', 'someone:secret-password');
    for (const [refused, reason] of [
      [url, /refuses/],
      [`${server.url}/nowhere`, /refuses .*vhost/],
      ['redis://someone:secret-password@localhost', /URL/],
    ] as const) {
      const error = await openAmqp({ url: refused, log: silentLog }).catch((reason: Error) => reason);
      expect(String(error)).toMatch(reason);
      expect(String(error)).not.toContain('secret-password');
    }
    const stop = new AbortController();
    const nowhere = `amqp://127.0.0.1:${await freePort()}`;
    const waiting = openAmqp({ url: nowhere, log: silentLog, signal: stop.signal });
    stop.abort(new Error('never mind'));
    await expect(waiting).rejects.toThrow('never mind');
  });

  test('confirmed messages arrive in order; unroutable messages are refused at once', async () => {
    const amqp = await open();
    const queue = newQueue();
    const publish = send(amqp, queue);
    await expect(publish('too early')).rejects.toThrow(Unroutable);
    const { seen, isReady } = listen(amqp, queue);
    await isReady();
    const texts = Array.from({ length: 3_000 }, (_, n) => `${n}`);
    await Promise.all(texts.map(publish));
    await eventually(() => seen.length === texts.length);
    expect(seen).toEqual(texts);
    await amqp.ping();
  });

  test('an oversized message is refused and does not affect others', async () => {
    const amqp = await open();
    const queue = newQueue();
    const { seen, isReady } = listen(amqp, queue);
    await isReady();
    const publish = send(amqp, queue);
    const large = 'x'.repeat(MAX_MESSAGE_BYTES);
    await expect(publish(`${large}x`)).rejects.toThrow(RangeError);
    await Promise.all([publish(large), publish('small')]);
    await eventually(() => seen.length === 2);
    expect(seen.map(({ length }) => length)).toEqual([MAX_MESSAGE_BYTES, 5]);
  });

  test('messages that the broker refuses are resent until it accepts them, and those after them arrive', async () => {
    const { log, lines } = listLog();
    const amqp = await open(log);
    const queue = newQueue();
    const full = amqp.openChannel({
      name: queue,
      async setup(channel) {
        const options = { 'x-max-length': 1, 'x-overflow': 'reject-publish' };
        await channel.assertQueue(queue, { durable: true, arguments: options });
      },
    });
    await eventually(() => full.current !== undefined);
    const publish = send(amqp, queue);
    await publish('1');
    const refused = [publish('2'), publish('3')];
    await eventually(() => lines.filter((line) => line === 'rabbitmq.message_refused').length > 1);
    const got: string[] = [];
    await consume(full.current!, queue, (message) => {
      got.push(message.content.toString());
      ack(full.current!, message);
    });
    await Promise.all(refused);
    await eventually(() => got.length >= 3);
    expect([...new Set(got)].sort()).toEqual(['1', '2', '3']);
    expect(lines).not.toContain('rabbitmq.down');
  });

  test('a channel is reopened when the broker closes it or its queue is deleted', async () => {
    const { log, lines } = listLog();
    const amqp = await open(log);
    const queue = newQueue();
    const { seen, channels, losses, isReady } = listen(amqp, queue);
    await isReady();
    const publish = send(amqp, queue);
    // 406: unknown delivery tag.
    channels[0]!.ack({ fields: { deliveryTag: 77 } } as never);
    await eventually(() => channels.length === 2 && losses() === 1);
    await isReady();
    await publish('after the first');
    await eventually(() => seen.length === 1);

    const other = await open();
    const deleting = other.openChannel({
      name: 'deleting',
      setup: async (channel) => void (await channel.deleteQueue(queue)),
    });
    await eventually(() => channels.length === 3 && losses() === 2);
    await isReady();
    await publish('after the second');
    await eventually(() => seen.length === 2);
    await deleting.close();
    expect(lines).toContain('rabbitmq.channel_closed');
    expect(lines).not.toContain('rabbitmq.down');
  });

  test('a broker killed under load loses no confirmed message and keeps their order; clients recover by themselves', async () => {
    const { log, lines } = listLog();
    const amqp = await open(log);
    const queue = newQueue();
    const { seen, messages, isReady } = listen(amqp, queue);
    await isReady();
    const publish = send(amqp, queue);
    const stop = new AbortController();
    stops.push(stop);
    const stopped = stop.signal;
    const confirmed: string[] = [];
    const publishing = (async () => {
      const pending: Promise<void>[] = [];
      for (let n = 0; !stopped.aborted; n++) {
        const text = `${n}`;
        const sent = publish(text).then(
          () => void confirmed.push(text),
          () => {},
        );
        pending.push(sent);
        if (n % 50 === 49) await sent;
      }
      await Promise.all(pending);
    })();
    // RabbitMQ forgets a queue declared within a second before a SIGKILL.
    const declared = performance.now();
    await eventually(() => confirmed.length > 2_000 && performance.now() - declared > 3_000);
    await server.kill();
    await eventually(() => !amqp.isUp);
    await expect(amqp.ping()).rejects.toThrow('does not answer');
    await server.start();
    const back = performance.now();
    const before = confirmed.length;
    await eventually(() => confirmed.length > before + 1_000, { ms: 15_000 });
    expect(performance.now() - back).toBeLessThan(5_000);
    stop.abort();
    await publishing;
    await eventually(() => {
      const arrived = new Set(seen);
      return confirmed.every((text) => arrived.has(text));
    });
    // First arrivals only.
    const first = [...new Set(seen)].map(Number);
    expect(first.filter((n, i) => i > 0 && n < first[i - 1]!).slice(0, 5)).toEqual([]);
    // Resent messages have the header.
    const copies = messages.filter(
      ({ content, fields }, i) => !fields.redelivered && seen.indexOf(content.toString()) < i,
    );
    for (const { properties } of copies) expect(properties.headers).toMatchObject({ [REDELIVERED]: true });
    // Of publishers, consumers and calls.
    expect(lines.filter((line) => line === 'rabbitmq.down')).toHaveLength(3);
    await eventually(() => expect(lines.filter((line) => line === 'rabbitmq.up')).toHaveLength(3));
    await amqp.ping();
  }, 60_000);

  test('unacknowledged messages are redelivered when another node joins or leaves, although their channel survived', async () => {
    const other = await startRabbit();
    try {
      await other.kill();
      const url = `${server.url},${new URL(other.url).host}`;
      const { log, lines } = listLog();
      const amqp = await open(log, url);
      const queue = newQueue();
      const seen: string[] = [];
      const channel = amqp.openChannel({
        name: queue,
        reopenOnNodeChange: true,
        async setup(channel) {
          await channel.assertQueue(queue, QUORUM);
          await consume(channel, queue, ({ content, fields }) => {
            seen.push(`${content}${fields.redelivered ? ' redelivered' : ''}`);
          });
        },
      });
      await eventually(() => channel.current !== undefined);
      await send(amqp, queue)('1');
      await eventually(() => seen.length > 0);
      const before = lines.length;
      await other.start();
      await eventually(() => seen.length > 1, { ms: 15_000 });
      await other.kill();
      await eventually(() => seen.length > 2, { ms: 15_000 });
      expect(seen).toEqual(['1', '1 redelivered', '1 redelivered']);
      // No connection or channel in use was lost.
      expect(lines.slice(before)).toEqual([]);
    } finally {
      await other.dispose();
    }
  }, 60_000);

  test('start waits for an unreachable broker', async () => {
    await server.kill();
    const { log, lines } = listLog();
    const waiting = openAmqp({ url: server.url, log });
    await eventually(() => lines.includes('rabbitmq.down'));
    await server.start();
    await closing(await waiting).ping();
  }, 60_000);
});

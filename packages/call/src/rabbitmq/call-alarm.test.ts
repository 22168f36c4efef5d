import { randomBytes } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { ack, type ConsumeMessage, consume } from '@wellspring/amqp/channel';
import { openAmqp } from '@wellspring/amqp/client';
import { createByteBudget } from '@wellspring/core/byte-budget';
import { newSecret } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach, forSuite } from '@wellspring/testing/lifetimes';
import { startRabbit } from '@wellspring/testing/servers/rabbitmq';
import { withPrograms } from '@wellspring/testing/servers/servers';
import { createRabbitCall } from './call.ts';

const JOBS = 10;
const BUDGET = 16 * 1024 * 1024;
const REPLY_BYTES = 1024 * 1024;

await withPrograms(['rabbitmq'], () => {
  const server = forSuite(startRabbit);
  const closing = closeAfterEach();

  async function open() {
    const unconfirmed = createByteBudget(BUDGET);
    const amqp = closing(await openAmqp({ url: server.url, log: silentLog, unconfirmed }));
    const call = closing(
      createRabbitCall({
        ...{ amqp, log: silentLog, prefix: `t${newSecret()}.`, member: 'one' },
        ...{ keyed: new Set(), ownerOf: async () => undefined, owns: () => true },
      }),
    );
    async function works(): Promise<boolean> {
      const replyAddress = call.openReplyAddress();
      call.reply(replyAddress.address, 1);
      return (await replyAddress.receive(1_000)) === 1;
    }
    await eventually(works);
    return { call, works, amqp, unconfirmed };
  }

  test('calls during an alarm of the broker hold back no acknowledgement of their process, and arrive after it', async () => {
    const { amqp, call, works } = await open();
    const queue = 'jobs';
    const arrived: ConsumeMessage[] = [];
    const channel = amqp.openChannel({
      name: queue,
      async setup(made) {
        await made.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': 'quorum' } });
        await made.prefetch(1);
        await consume(made, queue, (message) => void arrived.push(message));
      },
    });
    await eventually(() => channel.current !== undefined);
    const publisher = amqp.openPublisher(queue);
    for (let n = 0; n < JOBS; n += 1)
      await publisher.publish({ routingKey: queue, content: Buffer.from('x'), options: {} });
    await eventually(() => arrived.length === 1);
    await server.alarm(true);
    const replyAddress = call.openReplyAddress();
    // Each acknowledgement lets the next job arrive.
    for (let n = 1; n < JOBS; n += 1) {
      call.reply(replyAddress.address, n);
      ack(channel.current!, arrived.at(-1)!);
      await eventually(() => arrived.length === n + 1);
    }
    await server.alarm(false);
    expect(await replyAddress.receive(10_000)).toBe(1);
    await eventually(works);
  }, 60_000);

  test('a request during an alarm of the broker fails before its deadline if its caller wants that', async () => {
    const { call, works } = await open();
    call.serve('prepare', async () => 1, new AbortController().signal);
    await eventually(async () => (await call.request('prepare', 0, { deadlineMs: 10_000 })) === 1);
    await server.alarm(true);
    await eventually(async () => !(await works()));
    const request = call.request('prepare', 0, { deadlineMs: 1_000_000, reachMs: 1_000 });
    await expect(request).rejects.toThrow('no process served it');
    await server.alarm(false);
    await eventually(works);
  }, 60_000);

  test('calls during an alarm of the broker wait within the memory budget; later ones are lost', async () => {
    const { call, works, unconfirmed } = await open();
    await server.alarm(true);
    // The broker tells a connection of the alarm when it publishes.
    await eventually(async () => !(await works()) && unconfirmed.used > 0);
    const text = randomBytes(REPLY_BYTES).toString('base64');
    const replyAddresses = Array.from({ length: (2 * BUDGET) / REPLY_BYTES }, () => call.openReplyAddress());
    for (const { address } of replyAddresses) call.reply(address, text);
    expect(unconfirmed.used).toBeLessThanOrEqual(BUDGET);
    await server.alarm(false);
    expect(await replyAddresses[0]!.receive(10_000)).toBe(text);
    await eventually(works);
    const arrived = await Promise.all(replyAddresses.map(async (one) => (await one.receive(100)) === text));
    expect(arrived.filter(Boolean).length).toBeLessThanOrEqual(BUDGET / REPLY_BYTES);
    await eventually(() => unconfirmed.used === 0);
  }, 60_000);
});

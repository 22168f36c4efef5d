import { expect, test } from '@jest/globals';
import { ack, type ConsumeMessage, consume } from '@wellspring/amqp/channel';
import { openAmqp } from '@wellspring/amqp/client';
import { newSecret } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach, forSuite } from '@wellspring/testing/lifetimes';
import { startRabbit } from '@wellspring/testing/servers/rabbitmq';
import { withPrograms } from '@wellspring/testing/servers/servers';
import { createRabbitCall } from './call.ts';

const JOBS = 10;

await withPrograms(['rabbitmq'], () => {
  const server = forSuite(startRabbit);
  const closing = closeAfterEach();

  test('calls during an alarm of the broker hold back no acknowledgement of their process, and arrive after it', async () => {
    const amqp = closing(await openAmqp({ url: server.url, log: silentLog }));
    const call = closing(
      createRabbitCall({
        ...{ amqp, log: silentLog, prefix: `t${newSecret()}.`, member: 'one' },
        ...{ keyed: new Set(), ownerOf: async () => undefined },
      }),
    );
    async function works(): Promise<boolean> {
      const replyAddress = call.openReplyAddress();
      call.reply(replyAddress.address, 1);
      return (await replyAddress.receive(1_000)) === 1;
    }
    await eventually(works);
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
});

import { expect, test } from '@jest/globals';
import { newSecret } from '@wellspring/core/ids';
import { Unavailable } from '@wellspring/core/unavailable';
import { eventually } from '@wellspring/testing/eventually';
import { withServers } from '@wellspring/testing/servers/servers';
import { openCall } from './call.fixture.ts';

await withServers(['rabbitmq'], ({ rabbitmq }) => {
  test('a process answers pings once it can be called, not while RabbitMQ refuses its exchange', async () => {
    const prefix = `t${newSecret()}.`;
    await using opened = await openCall(rabbitmq, { prefix: `t${newSecret()}.` });
    await eventually(() => opened.call.ping());
    const operator = opened.amqp.openChannel({ name: 'operator', setup: async () => {} });
    const channel = await eventually(() => operator.current ?? false);
    // RabbitMQ refuses to declare it with another type, as it does without permissions.
    await channel.assertExchange(`${prefix}call`, 'fanout', { durable: true });
    await using refused = await openCall(rabbitmq, { prefix });
    await expect(refused.call.ping()).rejects.toThrow(Unavailable);
    await channel.deleteExchange(`${prefix}call`);
    await eventually(() => refused.call.ping());
  }, 30_000);
});

import { expect, test } from '@jest/globals';
import { newSecret } from '@wellspring/core/ids';
import { eventually } from '@wellspring/testing/eventually';
import { withServers } from '@wellspring/testing/servers/servers';
import { openCall } from './call.fixture.ts';

await withServers(['rabbitmq'], ({ rabbitmq }) => {
  test('requests and replies work again after the exchange was deleted, also in a process that sends nothing', async () => {
    const prefix = `t${newSecret()}.`;
    await using caller = await openCall(rabbitmq, { prefix });
    await using server = await openCall(rabbitmq, { prefix });
    const echo = async (message: unknown) => message;
    server.call.serve('echo', echo, new AbortController().signal);
    expect(await caller.call.request('echo', 1, { deadlineMs: 30_000 })).toBe(1);
    const operator = server.amqp.openChannel({ name: 'operator', setup: async () => {} });
    const channel = await eventually(() => operator.current ?? false);
    await channel.deleteExchange(`${prefix}call`);
    const replyAddress = caller.call.openReplyAddress();
    await eventually(
      async () => {
        server.call.reply(replyAddress.address, 1);
        return (await replyAddress.receive(100)) === 1;
      },
      { ms: 20_000 },
    );
    // The first to use it may fail with its channel.
    await eventually(() => caller.call.request('echo', 2, { deadlineMs: 20_000 }), { ms: 30_000 });
  }, 60_000);
});

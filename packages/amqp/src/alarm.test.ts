import { expect, test } from '@jest/globals';
import { createByteBudget } from '@wellspring/core/byte-budget';
import { silentLog } from '@wellspring/core/log';
import { NotSent, Unavailable } from '@wellspring/core/unavailable';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach, forSuite } from '@wellspring/testing/lifetimes';
import { startRabbit } from '@wellspring/testing/servers/rabbitmq';
import { withPrograms } from '@wellspring/testing/servers/servers';
import { consume } from './channel.ts';
import { openAmqp } from './client.ts';

const KB = 1024;
const BUDGET = 4 * KB * KB;

await withPrograms(['rabbitmq'], () => {
  const server = forSuite(startRabbit);
  const closing = closeAfterEach();

  /** A connection with this budget, and the ids of messages as they arrive in a queue. */
  async function open(queue: string, budget: number) {
    const unconfirmed = createByteBudget(budget);
    const amqp = closing(await openAmqp({ url: server.url, log: silentLog, unconfirmed }));
    const arrived: string[] = [];
    const channel = amqp.openChannel({
      name: queue,
      async setup(made) {
        await made.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': 'quorum' } });
        await consume(made, queue, ({ properties }) => void arrived.push(properties.messageId), {
          noAck: true,
        });
      },
    });
    await eventually(() => channel.current !== undefined);
    return { amqp, unconfirmed, arrived };
  }

  test('a broker with an alarm refuses messages within seconds and within the budget; afterwards all go on, and none confirmed is lost', async () => {
    const queue = 'alarm';
    const { amqp, unconfirmed, arrived } = await open(queue, BUDGET);
    const publisher = amqp.openPublisher(queue);
    const content = Buffer.alloc(100 * KB);
    const confirmed: string[] = [];
    const refused: unknown[] = [];
    const notSent = new Set<string>();
    let nth = 0;
    let mostUsed = 0;
    const publish = () => {
      const messageId = `m${++nth}`;
      const sent = publisher.publish({ routingKey: queue, content, options: { messageId } }).then(
        () => confirmed.push(messageId),
        (error: unknown) => {
          refused.push(error);
          if (error instanceof NotSent) notSent.add(messageId);
        },
      );
      mostUsed = Math.max(mostUsed, unconfirmed.used);
      return sent;
    };
    const many = () => Promise.all(Array.from({ length: 200 }, publish));
    await many();
    expect([confirmed.length, refused]).toEqual([200, []]);

    await server.alarm(true);
    // The broker tells publishers with their next message.
    const first = many();
    await eventually(() =>
      amqp.ping().then(
        () => false,
        () => true,
      ),
    );
    await first;
    // No message waits from now on.
    await eventually(async () => {
      const begun = performance.now();
      await publish();
      return performance.now() - begun < 500;
    });
    const before = [confirmed.length, refused.length];
    for (let round = 0; round < 20; round++) await many();
    expect([confirmed.length, refused.length]).toEqual([before[0], before[1]! + 4_000]);
    expect(refused.every((error) => error instanceof Unavailable)).toBe(true);
    expect(notSent.size).toBeGreaterThanOrEqual(4_000);
    expect(mostUsed).toBeLessThanOrEqual(BUDGET);

    await server.alarm(false);
    await eventually(() => amqp.ping().then(() => true));
    const then = confirmed.length;
    await eventually(async () => {
      await publish();
      return confirmed.length > then;
    });
    await many();
    expect(confirmed.length).toBeGreaterThanOrEqual(then + 201);
    await eventually(() => new Set(confirmed).isSubsetOf(new Set(arrived)));
    expect(notSent.isDisjointFrom(new Set(arrived))).toBe(true);
    expect(unconfirmed.used).toBe(0);
  }, 60_000);

  test('messages beyond the budget wait for it and are confirmed in order', async () => {
    const queue = 'narrow';
    const { amqp, unconfirmed, arrived } = await open(queue, 256 * KB);
    const publishers = [amqp.openPublisher('one'), amqp.openPublisher('two')];
    const ids = Array.from({ length: 100 }, (_, n) => `m${n}`);
    const content = Buffer.alloc(50 * KB);
    let mostUsed = 0;
    await Promise.all(
      publishers.flatMap((publisher, at) =>
        ids.map(async (id) => {
          await publisher.publish({ routingKey: queue, content, options: { messageId: `${at}${id}` } });
          mostUsed = Math.max(mostUsed, unconfirmed.used);
        }),
      ),
    );
    // After a lost connection some arrive twice.
    const first = () => [...new Set(arrived)];
    await eventually(() => first().length === 200);
    for (const at of [0, 1]) {
      expect(first().filter((id) => id.startsWith(`${at}`))).toEqual(ids.map((id) => `${at}${id}`));
    }
    expect(mostUsed).toBeLessThanOrEqual(256 * KB);
    expect(unconfirmed.used).toBe(0);
  }, 30_000);
});

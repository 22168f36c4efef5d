import { openAmqp } from '@wellspring/amqp/client';
import { createRabbitCall } from '@wellspring/call/rabbitmq';
import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { createLeases } from '@wellspring/queue/leases';
import { openDatabase } from '@wellspring/sqlite/database';
import { createEmbeddedStore } from '@wellspring/store/embedded';

/**
 * A process that owns the only partition and serves the keyed address `hook`: it prints each message that it executes.
 * Arguments: URL of RabbitMQ, prefix, name of the process.
 */
const [url, prefix, member] = process.argv.slice(2) as [string, string, string];
const amqp = await openAmqp({ url, log: silentLog });
const leases = createLeases({
  store: createEmbeddedStore(openDatabase(':memory:')),
  ...{ clock: systemClock, log: silentLog, member, partitions: 1 },
  wakeUp: { send() {}, onReceived() {}, sendEnded() {}, onEnded() {} },
  isAble: () => amqp.isUp,
});
const { signal } = new AbortController();
void leases.join('runs', { take() {}, async release() {}, lost() {} }, signal);
const call = createRabbitCall({
  ...{ amqp, log: silentLog, prefix, member, keyed: new Set(['hook']) },
  ownerOf: () => leases.holderOf('runs', 0),
  owns: () => leases.holds('runs', 0),
});
const execute = async (message: number) => {
  process.stdout.write(`${message}\n`);
  return message;
};
call.serve('hook', execute, signal);

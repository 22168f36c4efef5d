import type { Amqp } from '@wellspring/amqp/client';
import { newSecret } from '@wellspring/core/ids';
import { modify, type Store } from '@wellspring/store/port';
import { layout } from './collections.ts';

export interface InstallationOptions {
  store: Store;
  amqp: Pick<Amqp, 'reserve'>;
  /** Number of partitions of each queue. It cannot be changed: a key must not move while it has waiting jobs. */
  partitions: number;
  /** Prefix of the names in RabbitMQ; default `wellspring.`. */
  prefix?: string;
}

/**
 * Stores the number of partitions and an id of the installation at the first start, and reserves the vhost of RabbitMQ
 * for this id: two installations with one vhost would execute and drop each other's jobs. Idempotent.
 * @throws Error when the number differs, or the vhost belongs to another installation
 * @throws Unavailable when a server does not answer
 */
export async function assertInstallation({
  store,
  amqp,
  partitions,
  prefix = 'wellspring.',
}: InstallationOptions): Promise<void> {
  const rows = store.collection(layout);
  await rows.insertMany([{ id: 'layout', partitions, installation: newSecret() }]);
  let row = await rows.get('layout');
  // The row of an earlier version has no id.
  if (!row?.installation)
    row = await modify(rows, 'layout', (old) => ({ installation: newSecret(), ...old }));
  if (row!.partitions !== partitions) {
    throw new Error(
      `The queues of this installation have ${row!.partitions} partitions, not ${partitions}: restore the former setting.`,
    );
  }
  const name = `${prefix}installation`;
  if (!(await amqp.reserve(name, `${prefix}${row!.installation}`))) {
    throw new Error(
      `The vhost of RabbitMQ belongs to another installation, whose data are in another database of MongoDB: use a vhost of its own. If the other installation no longer exists, delete and recreate the vhost, or delete the exchange ${name} to take over its messages.`,
    );
  }
}

import type { Channel, ConsumeMessage } from '@wellspring/amqp/channel';
import type { Collection } from '@wellspring/store/port';
import type { AttemptsRow } from './collections.ts';

/** Failed attempts by job id. */
export async function failuresOf(
  rows: Collection<AttemptsRow>,
  jobs: readonly { id: string }[],
): Promise<Map<string, number>> {
  if (jobs.length === 0) return new Map();
  const found = await rows.list({ where: { id: { in: jobs.map(({ id }) => id) } }, limit: jobs.length });
  return new Map(found.map(({ id, attempts: failures }) => [id, failures]));
}

export interface ArrivalOptions {
  isInMemory(id: string): boolean;
  /** undefined: the partition was released first. */
  load(jobs: readonly { id: string }[]): Promise<Map<string, number> | undefined>;
  arrive(from: Channel, message: ConsumeMessage, failures: Map<string, number>): void;
  closing: AbortSignal;
}

/** Passes messages on in order; redelivered ones, and those after them, wait until their failed attempts are loaded. */
export function createArrivals({ isInMemory, load, arrive, closing }: ArrivalOptions) {
  let unresolved: { from: Channel; message: ConsumeMessage }[] = [];
  let isLookingUp = false;

  async function lookUpFailures(): Promise<void> {
    isLookingUp = true;
    while (unresolved.length > 0 && !closing.aborted) {
      // Messages of one event loop turn share a query.
      await new Promise(setImmediate);
      const batch = unresolved;
      unresolved = [];
      const unknown = batch.filter(
        ({ message: { fields, properties } }) => fields.redelivered && !isInMemory(properties.messageId),
      );
      const failures = await load(
        unknown.map(({ message }) => ({ id: String(message.properties.messageId) })),
      );
      if (failures) for (const { from, message } of batch) arrive(from, message, failures);
    }
    isLookingUp = false;
  }

  return {
    onMessage(from: Channel, message: ConsumeMessage): void {
      if (!message.fields.redelivered && unresolved.length === 0 && !isLookingUp) {
        arrive(from, message, new Map());
        return;
      }
      unresolved.push({ from, message });
      if (!isLookingUp) void lookUpFailures();
    },
    /** The channel is lost: the broker will redeliver the messages that wait. */
    clear() {
      unresolved = [];
    },
  };
}

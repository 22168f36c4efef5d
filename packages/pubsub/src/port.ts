/**
 * Port `pubsub`: wake-ups, at most once. Listeners read the store; nothing may depend on the arrival of a message, or on
 * its content beyond the topic.
 */
export interface PubSub {
  publish(topic: string, message?: string): void;
  /** @returns a function that ends the subscription */
  subscribe(topic: string, listener: (message: string) => void): () => void;
  ping(): Promise<void>;
  close(): Promise<void>;
}

/** New events of an emitter (also errors and logs). */
export const eventsTopic = (emitterId: string) => `events/${emitterId}`;
/** An emitter, webhook or API key was changed or deleted; the session of a process was ended. */
export const changedTopic = (id: string) => `changed/${id}`;
/** The first call with an Idempotency-Key is over. */
export const answeredTopic = (id: string) => `answered/${id}`;
/** Deliveries are due. */
export const DELIVERIES_DUE = 'deliveries-due';
/** Timers were set. */
export const TIMERS_CHANGED = 'timers-changed';
/** Partitions of a queue are free, or a process joined or left. */
export const PARTITIONS_CHANGED = 'partitions-changed';

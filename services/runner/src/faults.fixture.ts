import { Unavailable } from '@wellspring/core/unavailable';
import type { Job, Queue, QueueName } from '@wellspring/queue/port';
import type { Store } from '@wellspring/store/port';
import type { RunCommit } from '@wellspring/store/run-commit';

/** Called before the real operation; a throw makes it fail. `refuse` makes a commit hit a version conflict. */
export interface Faults {
  commit: (commit: RunCommit) => 'refuse' | undefined;
  publish: (queue: QueueName) => void;
  /** With the time limit of the call, ms. */
  execute: (timeoutMs: number) => void;
}

export interface Faulty {
  faults: Faults;
  /** Of the lease under which jobs are handed out; undefined: that of the queue. */
  epoch: number | undefined;
  /** Whether that lease is certain. */
  isHeld: boolean;
  /** Thrown by the handler of the queue `runs`. */
  failures: Error[];
}

export const noFaults = (): Faulty => ({
  faults: { commit: () => undefined, publish: () => {}, execute: () => {} },
  epoch: undefined,
  isHeld: true,
  failures: [],
});

interface Ports {
  store: Store;
  queue: Queue;
}

/** The same ports with the faults that `t` has at the time of a call. */
export function withFaults(t: Ports & Faulty): Ports {
  const { store, queue } = t;
  const leased = (job: Job): Job => ({ ...job, epoch: t.epoch ?? job.epoch });
  const assertHeld = () => {
    if (!t.isHeld) throw new Unavailable('Another process may have the partition.');
  };
  return {
    store: {
      ...store,
      commitRun: async (commit) => t.faults.commit(commit) !== 'refuse' && store.commitRun(commit),
    },
    queue: {
      ...queue,
      publish: async (name, job) => {
        t.faults.publish(name);
        await queue.publish(name, job);
      },
      consume: (name, handler, options) => {
        if (name !== 'runs') return queue.consume(name, handler, options);
        return queue.consume(
          name,
          async ([first, ...others], next) => {
            const work = handler([leased(first), ...others.map(leased)], next, assertHeld);
            work.catch((error: Error) => t.failures.push(error));
            await work;
          },
          options,
        );
      },
    },
  };
}

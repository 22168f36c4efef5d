import type { Dispatcher } from '../dispatcher.ts';
import { acknowledge, type ReceivedJob } from './received-job.ts';

/** The jobs of a partition in memory: those that wait in the dispatcher, and those that are out. */
export interface ReceivedJobs {
  /** By id, in order of arrival. */
  readonly jobs: ReadonlyMap<string, ReceivedJob>;
  /** Number of jobs that are messages of the broker. */
  readonly messages: number;
  /** Of the payloads of messages. */
  readonly bytes: number;
  /** Size of the largest recent payload; decreases slowly when smaller ones follow. */
  readonly usualBytes: number;
  /** Appends the job to the queue of its key. */
  add(job: ReceivedJob): void;
  remove(job: ReceivedJob): void;
  /** Counts the payload of a message that is no job in memory. @returns a function that ends this */
  hold(payloadBytes: number): () => void;
  /** Removes waiting jobs. */
  drop(isChosen?: (job: ReceivedJob) => boolean): ReceivedJob[];
  /** The message has become a row of the overflow: its payload is in memory only while it is out. */
  stored(job: ReceivedJob, seq: number): void;
  /** Keys of jobs that were handed out before this time, performance.now(), and are out. */
  keysOut(before?: number): Set<string>;
  clear(): void;
}

export function createReceivedJobs(
  dispatcher: Pick<Dispatcher<ReceivedJob>, 'offer' | 'withdraw'>,
): ReceivedJobs {
  const jobs = new Map<string, ReceivedJob>();
  let bytes = 0;
  let usualBytes = 1;

  function count(payloadBytes: number): void {
    bytes += payloadBytes;
    usualBytes = Math.max(1, payloadBytes, usualBytes + (payloadBytes - usualBytes) / 16);
  }

  function remove(job: ReceivedJob): void {
    if (jobs.delete(job.id) && job.seq === undefined) bytes -= job.bytes;
  }

  return {
    jobs,
    get messages() {
      return jobs.values().reduce((sum, { seq }) => (seq === undefined ? sum + 1 : sum), 0);
    },
    get bytes() {
      return bytes;
    },
    get usualBytes() {
      return usualBytes;
    },
    add(job) {
      jobs.set(job.id, job);
      if (job.seq === undefined) count(job.bytes);
      dispatcher.offer(job);
    },
    remove,
    hold(payloadBytes) {
      count(payloadBytes);
      return () => {
        bytes -= payloadBytes;
      };
    },
    drop(isChosen = () => true) {
      const dropped = dispatcher.withdraw((job) => jobs.get(job.id) === job && isChosen(job));
      dropped.forEach(remove);
      return dropped;
    },
    stored(job, seq) {
      bytes -= job.bytes;
      job.seq = seq;
      if (job.outSince === undefined) job.payload = undefined;
      acknowledge(job);
    },
    keysOut(before = Number.POSITIVE_INFINITY) {
      const out = jobs.values().filter(({ outSince }) => outSince !== undefined && outSince < before);
      return new Set(out.map(({ key }) => key));
    },
    clear: () => jobs.clear(),
  };
}

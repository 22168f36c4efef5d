import { setTimeout as pause } from 'node:timers/promises';
import { afterEach } from '@jest/globals';
import { newSecret } from '@wellspring/core/ids';
import { openDatabase } from '@wellspring/sqlite/database';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import { closeAfterEach, forSuite } from '@wellspring/testing/lifetimes';
import { startRabbit } from '@wellspring/testing/servers/rabbitmq';
import type { Job, Queue } from '../port.ts';
import { type Installation, type RabbitProcess, startProcess } from './process.fixture.ts';

/** Records how the jobs of an installation are handled, over all processes. */
export interface Ledger {
  /** By key, in order of first handling. */
  first: Map<string, number[]>;
  handled: number;
  /** Keys handled in two processes at the same time. */
  overlaps: string[];
  handler(process: { isDead: boolean }, ms?: number): (jobs: readonly Job[]) => Promise<void>;
  count(): number;
}

export function createLedger(): Ledger {
  const busy = new Map<string, { isDead: boolean }>();
  const seen = new Set<string>();
  const ledger: Ledger = {
    first: new Map(),
    handled: 0,
    overlaps: [],
    handler:
      (process, ms = 0) =>
      async (jobs) => {
        const { key } = jobs[0]!;
        const other = busy.get(key);
        if (other && !other.isDead) ledger.overlaps.push(key);
        busy.set(key, process);
        if (ms > 0) await pause(ms);
        // A killed process does nothing more.
        if (process.isDead) return new Promise(() => {});
        busy.delete(key);
        for (const { payload } of jobs) {
          ledger.handled += 1;
          const name = `${key} ${payload}`;
          if (seen.has(name)) continue;
          seen.add(name);
          ledger.first.set(key, [...(ledger.first.get(key) ?? []), Number(payload)]);
        }
      },
    count: () => seen.size,
  };
  return ledger;
}

/** Keys whose jobs were not first handled in order of publication. */
export const outOfOrder = ({ first }: Ledger): string[] =>
  [...first].flatMap(([key, numbers]) =>
    numbers.some((number, i) => i > 0 && number < numbers[i - 1]!) ? [key] : [],
  );

/** Confirmed jobs that were not handled. */
export const missing = (confirmed: readonly string[], { first }: Ledger) =>
  confirmed.filter((name) => {
    const [key, payload] = name.split(' ') as [string, string];
    return !first.get(key)?.includes(Number(payload));
  });

/** Publishes to a few keys until it is stopped. @returns the confirmed jobs */
export function publishing(queue: Queue, keys: number) {
  const confirmed: string[] = [];
  let next = 0;
  let stopped = false;
  const ended = (async () => {
    while (!stopped) {
      const jobs = Array.from({ length: 20 }, () => ({ key: `dc_${next % keys}`, payload: `${next++}` }));
      const sent = jobs.map((job) =>
        queue.publish('runs', job).then(
          () => confirmed.push(`${job.key} ${job.payload}`),
          () => {},
        ),
      );
      await Promise.all(sent);
      await pause(1);
    }
  })();
  return {
    confirmed,
    async stop() {
      stopped = true;
      await ended;
    },
  };
}
/** Processes on RabbitMQ and Redis servers of the file; they end with each test. */
export function useProcesses() {
  const servers = { rabbit: forSuite(startRabbit) };
  const stops: AbortController[] = [];
  afterEach(() => {
    for (const stop of stops.splice(0)) stop.abort();
  });
  const closing = closeAfterEach();

  function install(partitions = 8): Installation {
    const store = createEmbeddedStore(closing(openDatabase(':memory:')));
    return { amqp: servers.rabbit.url, store, prefix: `t${newSecret()}.`, partitions };
  }
  const start = async (installation: Installation): Promise<RabbitProcess> =>
    closing(await startProcess({ ...installation, renewMs: 100, mortal: true }));
  /** Starts a process that consumes until it stops or is killed. */
  async function consumer(installation: Installation, ledger: Ledger, ms = 0, batch = 16) {
    const process = await start(installation);
    const stop = new AbortController();
    stops.push(stop);
    const state = { isDead: false };
    const ended = process.queue.consume('runs', ledger.handler(state, ms), {
      batch,
      signal: stop.signal,
    });
    return {
      process,
      async end() {
        stop.abort();
        await ended;
      },
      async kill() {
        state.isDead = true;
        await process.kill();
      },
    };
  }
  return { servers, stops, install, start, consumer };
}

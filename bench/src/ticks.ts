import { setTimeout as pause } from 'node:timers/promises';
import { systemClock } from '@wellspring/core/clock';
import { newId } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import { openDistributed } from '@wellspring/runtime/infra-distributed';
import { openMemory } from '@wellspring/runtime/memory';
import { createMetrics } from '@wellspring/runtime/metrics';
import { timers } from '@wellspring/store/collections/sources';
import { startCluster } from '@wellspring/testing/cluster';
import { startServers } from '@wellspring/testing/servers/server-set';
import { tempDir } from '@wellspring/testing/temp-dir';
import { percentile } from './load.ts';
import { cpuOf, cpuOfProgram } from './processes.ts';

const TIMERS = Number(process.env.BENCH_TIMERS ?? 1_000);
const SECONDS = Number(process.env.BENCH_SECONDS ?? 20);
const SCHEDULERS = 2;
/** Time for the last ticks to arrive. */
const DRAIN_MS = 2_000;

interface Tick {
  run_id: string;
  trigger: { due_at: number };
}

/**
 * Ticks of timers of 1 s, spread over the second, with two schedulers. This process consumes them in place of the runner,
 * and executes nothing.
 */
export async function measureTicks(): Promise<void> {
  const dir = await tempDir();
  const consumerDir = await tempDir();
  const servers = await startServers();
  const { amqp, redis, mongodb } = servers.urls;
  const cluster = await startCluster({
    urls: servers.urls,
    dataDir: dir.path,
    replicas: { runner: 0, sources: SCHEDULERS },
  });
  const { metrics } = createMetrics();
  const { store, queue, close } = await openDistributed(
    { dataDir: consumerDir.path, s3Url: null, amqpUrl: amqp, redisUrl: redis, mongodbUrl: mongodb },
    { clock: systemClock, log: silentLog, metrics, memory: openMemory({ memoryMb: null }, metrics) },
  );
  const ending = new AbortController();
  try {
    /** Times that each tick was published, and its delay, by run id. */
    const ticks = new Map<string, { due: number; delay: number; times: number }>();
    const consuming = queue.consume(
      'runs',
      async (jobs) => {
        for (const { payload } of jobs) {
          const { run_id, trigger } = JSON.parse(payload) as Tick;
          const known = ticks.get(run_id);
          if (known) known.times += 1;
          else ticks.set(run_id, { due: trigger.due_at, delay: Date.now() - trigger.due_at, times: 1 });
        }
      },
      { batch: 64, signal: ending.signal },
    );
    const first = Date.now() + 2_000;
    await store.collection(timers).insertMany(
      Array.from({ length: TIMERS }, (_, n) => {
        const source_id = newId('dc');
        return {
          id: `${source_id}/timer`,
          source_id,
          prop: 'timer',
          interval_seconds: 1,
          cron: null,
          timezone: null,
          due_at: Math.floor(first + (n / TIMERS) * 1_000),
          lease_until: null,
        };
      }),
    );
    const used = () => ({
      schedulers: cluster.of('sources').reduce((sum, { pid }) => sum + cpuOf(pid!).itself, 0),
      MongoDB: cpuOfProgram(process.pid, 'mongod'),
      RabbitMQ: cpuOfProgram(process.pid, 'beam.smp'),
      consumer: cpuOf(process.pid).itself,
    });
    const from = first + 5_000;
    const until = from + SECONDS * 1_000;
    await pause(from - Date.now());
    const before = used();
    await pause(until - Date.now());
    const after = used();
    await pause(DRAIN_MS);

    const seen = [...ticks.values()].filter(({ due }) => due >= from && due < until);
    const delays = seen.map(({ delay }) => delay).sort((a, b) => a - b);
    const expected = TIMERS * SECONDS;
    const share = Object.entries(after).map(
      ([name, seconds]) =>
        `${name} ${(((seconds - before[name as keyof typeof before]) / expected) * 1000).toFixed(2)}`,
    );
    console.log(`\n${TIMERS} timers of 1 s, ${SCHEDULERS} schedulers, ${SECONDS} s\n`);
    console.log(
      `ticks: ${seen.length} of ${expected}; published more than once: ${seen.filter(({ times }) => times > 1).length}`,
    );
    console.log(
      `from due to consumed: p50 ${percentile(delays, 50)} ms, p99 ${percentile(delays, 99)} ms, most ${delays.at(-1)} ms`,
    );
    console.log(`ms of processor a tick: ${share.join(', ')}`);
    ending.abort();
    await consuming;
  } finally {
    ending.abort();
    await close();
    await cluster[Symbol.asyncDispose]();
    await servers[Symbol.asyncDispose]();
    await dir.remove();
    await consumerDir.remove();
  }
}

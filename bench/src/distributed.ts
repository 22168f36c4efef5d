import { setTimeout as pause } from 'node:timers/promises';
import { startCluster } from '@wellspring/testing/cluster';
import { startServers } from '@wellspring/testing/servers/server-set';
import { tempDir } from '@wellspring/testing/temp-dir';
import { Ledger, type Offer, offer } from './load.ts';
import { deployRoad } from './platform.ts';
import { cpuOf, cpuOfProgram, memoryOf, startModule } from './processes.ts';
import { brokerLimit, documentsWritten, storeLimit } from './server-limits.ts';
import { measureServices } from './services.ts';

const EVENTS = Number(process.env.BENCH_DISTRIBUTED_EVENTS ?? 2000);
const SOURCES = 8;
/** Events per second of the latency rounds. */
const RATES = [100, 300];
const PACED_SECONDS = 10;
const IDLE_MS = 20_000;

/** The sum of a counter over the metrics of processes. */
async function counted(urls: readonly string[], metric: string): Promise<number> {
  let sum = 0;
  for (const url of urls) {
    const text = await (await fetch(`${url}/metrics`)).text();
    for (const [, value] of text.matchAll(new RegExp(`^${metric}(?:\\{[^}]*\\})? (\\S+)$`, 'gm')))
      sum += Number(value);
  }
  return sum;
}

/**
 * Accepted → delivered with one process per service, compared with a bare pipe in the same run, and with the servers
 * alone: messages through the same RabbitMQ, inserts into the same database.
 */
export async function compareDistributed(): Promise<void> {
  const dir = await tempDir();
  const servers = await startServers();
  const { urls } = servers;
  const ledger = new Ledger();
  const receiver = await startModule('./receiver.ts', [], ({ batch }: { batch: [number, number][] }) =>
    ledger.add(batch),
  );
  const pipe = await startModule('./pipe.ts', [`http://127.0.0.1:${receiver.port}/`]);
  const cluster = await startCluster({
    urls,
    dataDir: dir.path,
    replicas: 1,
    env: { WELLSPRING_RETAIN_EVENTS: '1000000', WELLSPRING_MIN_INTERVAL_SECONDS: '1' },
  });
  try {
    const target = `http://127.0.0.1:${receiver.port}/`;
    const one = [await deployRoad(cluster.client, target)];
    const several = await Promise.all(
      Array.from({ length: SOURCES }, () => deployRoad(cluster.client, target)),
    );
    const admins = cluster.processes.map(({ adminUrl }) => adminUrl);
    const pids = cluster.processes.map(({ pid }) => pid!);
    /** CPU seconds so far. */
    const processors = (): Record<string, number> => {
      const of = (service: 'gateway' | 'runner' | 'delivery') => cpuOf(cluster.of(service)[0]!.pid!);
      const platform = pids.reduce((sum, pid) => sum + cpuOf(pid).itself, 0);
      return {
        gateway: of('gateway').itself,
        runner: of('runner').itself,
        'user code': of('runner').below,
        delivery: of('delivery').itself,
        others: platform - of('gateway').itself - of('runner').itself - of('delivery').itself,
        MongoDB: cpuOfProgram(process.pid, 'mongod'),
        RabbitMQ: cpuOfProgram(process.pid, 'beam.smp'),
        Redis: cpuOfProgram(process.pid, 'redis-server'),
      };
    };
    const used = (before: Record<string, number>) => {
      const parts = Object.entries(processors()).map(
        ([name, seconds]) => [name, seconds - before[name]!] as const,
      );
      return { parts, sum: parts.reduce((sum, [, seconds]) => sum + seconds, 0) };
    };
    let first = 0;
    const measure = async (what: Offer, count = EVENTS) => {
      const before = await counted(admins, 'wellspring_store_statements_total');
      const rowsBefore = await documentsWritten(urls.mongodb);
      const processorsBefore = processors();
      const result = await offer(what, ledger, first, count);
      const { parts, sum } = used(processorsBefore);
      first += count;
      return {
        ...result,
        rows: ((await documentsWritten(urls.mongodb)) - rowsBefore) / count,
        statements: ((await counted(admins, 'wellspring_store_statements_total')) - before) / count,
        processor: `${((sum / count) * 1000).toFixed(2)} (${parts.map(([name, seconds]) => `${name} ${((seconds / count) * 1000).toFixed(2)}`).join(', ')})`,
      };
    };
    const memory = () => (pids.reduce((sum, pid) => sum + memoryOf(pid), 0) / 1024 / 1024).toFixed(0);

    await pause(IDLE_MS / 2);
    const idleBefore = processors();
    await pause(IDLE_MS);
    const idle = used(idleBefore);
    const share = (seconds: number) => `${((seconds / IDLE_MS) * 100_000).toFixed(1)} %`;
    console.log(`\ndistributed, every service once, events of 1 KB, MongoDB and RabbitMQ of one node each`);
    console.log(
      `  idle                ${share(idle.sum)} of a core (${idle.parts.map(([name, seconds]) => `${name} ${share(seconds)}`).join(', ')}), ${memory()} MB`,
    );
    // Warms up.
    await measure({ urls: several });
    const broker = await brokerLimit(urls.amqp, 10 * EVENTS);
    const inserts = await storeLimit(urls.mongodb, 2 * EVENTS, 1);
    console.log(`  RabbitMQ by itself  ${broker.toFixed(0)} messages/s, published, confirmed, consumed`);
    console.log(`  database by itself  ${inserts.toFixed(0)} inserts/s`);
    const bare = { urls: [`http://127.0.0.1:${pipe.port}/`] };
    await measure(bare);
    for (const [name, what] of [
      ['one source', { urls: one }],
      [`${SOURCES} sources`, { urls: several }],
    ] as const) {
      const { rate: limit } = await measure(bare);
      const full = await measure(what);
      console.log(
        `  ${name.padEnd(12)} ${full.rate.toFixed(0)} events/s, ${(full.rate / limit).toFixed(2)} of the bare pipe; lost ${full.lost}, twice ${full.duplicated}; ${full.statements.toFixed(2)} statements and ${full.rows.toFixed(1)} rows an event`,
      );
      console.log(`               ms of processor an event: ${full.processor}`);
      for (const perSecond of RATES) {
        const paced = await measure({ ...what, perSecond }, perSecond * PACED_SECONDS);
        console.log(
          `               at ${perSecond}/s: p50 ${paced.deliveredP50.toFixed(0)} ms, p99 ${paced.deliveredP99.toFixed(0)} ms, lost ${paced.lost}, twice ${paced.duplicated}, ${paced.statements.toFixed(2)} statements and ${paced.rows.toFixed(1)} rows an event`,
        );
        console.log(`               ms of processor an event: ${paced.processor}`);
      }
    }
    console.log(`  memory loaded       ${memory()} MB`);
    await measureServices(cluster);
  } finally {
    await cluster[Symbol.asyncDispose]();
    pipe.child.disconnect();
    receiver.child.disconnect();
    await servers[Symbol.asyncDispose]();
    await dir.remove();
  }
}

import { startCluster } from '@wellspring/testing/cluster';
import { startServers } from '@wellspring/testing/servers/server-set';
import { tempDir } from '@wellspring/testing/temp-dir';
import { Ledger, offer } from './load.ts';
import { deployRoad } from './platform.ts';
import { cpuOf, cpuOfProgram, idleSeconds, startModule } from './processes.ts';
import { brokerLimit, documentsWritten, storeLimit } from './server-limits.ts';
import { measureServices } from './services.ts';

const EVENTS = Number(process.env.BENCH_DISTRIBUTED_EVENTS ?? 2000);
const SOURCES = 8;

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
 * Accepted → delivered with one process per service, compared with the servers alone: messages through the same
 * RabbitMQ, inserts into the same database.
 */
export async function compareDistributed(): Promise<void> {
  const dir = await tempDir();
  const servers = await startServers();
  const { urls } = servers;
  const ledger = new Ledger();
  const receiver = await startModule('./receiver.ts', [], ({ batch }: { batch: [number, number][] }) =>
    ledger.add(batch),
  );
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
    /** CPU seconds so far. */
    const processors = (): Record<string, number> => {
      const of = (service: 'gateway' | 'runner' | 'delivery') => cpuOf(cluster.of(service)[0]!.pid!);
      return {
        gateway: of('gateway').itself,
        runner: of('runner').itself,
        'user code': of('runner').below,
        delivery: of('delivery').itself,
        MongoDB: cpuOfProgram(process.pid, 'mongod'),
        RabbitMQ: cpuOfProgram(process.pid, 'beam.smp'),
        idle: idleSeconds(),
      };
    };
    let first = 0;
    const measure = async (what: { urls: string[]; perSecond?: number }) => {
      const before = await counted(admins, 'wellspring_store_statements_total');
      const rowsBefore = await documentsWritten(urls.mongodb);
      const processorsBefore = processors();
      const result = await offer(what, ledger, first, EVENTS);
      const processorsAfter = processors();
      first += EVENTS;
      const rows = (await documentsWritten(urls.mongodb)) - rowsBefore;
      const statements = (await counted(admins, 'wellspring_store_statements_total')) - before;
      const processor = Object.entries(processorsAfter).map(([name, seconds]) => {
        const ms = ((seconds - processorsBefore[name]!) / EVENTS) * 1000;
        return `${name} ${ms.toFixed(2)}`;
      });
      return {
        ...result,
        statements: statements / EVENTS,
        rows: rows / EVENTS,
        processor: processor.join(', '),
      };
    };
    // Warms up.
    await measure({ urls: several });
    const broker = await brokerLimit(urls.amqp, 10 * EVENTS);
    const inserts = await storeLimit(urls.mongodb, 2 * EVENTS, 1);
    console.log(
      `\ndistributed, every service once, ${EVENTS} events of 1 KB, MongoDB and RabbitMQ of one node each`,
    );
    console.log(`  RabbitMQ by itself  ${broker.toFixed(0)} messages/s, published, confirmed, consumed`);
    console.log(`  database by itself  ${inserts.toFixed(0)} inserts/s`);
    for (const [name, what] of [
      ['one source', { urls: one }],
      [`${SOURCES} sources`, { urls: several }],
    ] as const) {
      const full = await measure(what);
      // Two messages per event: on `runs` and on `emitted`.
      const bound = (store: number) => Math.min(broker / 2, store);
      const ratio = (limit: number) => (full.rate / limit).toFixed(2);
      // Counts rows, since a statement may contain many.
      const together = Math.max(1, Math.round(full.rows / full.statements));
      const rows = await storeLimit(urls.mongodb, 5 * EVENTS, together);
      const quarter = await measure({ ...what, perSecond: Math.max(1, full.rate / 4) });
      console.log(
        `  ${name.padEnd(12)} ${full.rate.toFixed(0)} events/s, ${full.statements.toFixed(2)} statements and ${full.rows.toFixed(1)} rows an event; lost ${full.lost + quarter.lost}, twice ${full.duplicated + quarter.duplicated}`,
      );
      console.log(
        `               ${ratio(bound(rows / full.rows))} of the servers' limit: by itself, the database writes ${rows.toFixed(0)} rows/s, ${together} together (${ratio(bound(inserts / full.statements))} if each statement were an insert of one row)`,
      );
      console.log(
        `               at a quarter of that rate: p50 ${quarter.deliveredP50.toFixed(0)} ms, p99 ${quarter.deliveredP99.toFixed(0)} ms, ${quarter.statements.toFixed(2)} statements an event`,
      );
      console.log(`               ms of processor an event: ${full.processor}`);
    }
    await measureServices(cluster);
  } finally {
    await cluster[Symbol.asyncDispose]();
    receiver.child.disconnect();
    await servers[Symbol.asyncDispose]();
    await dir.remove();
  }
}

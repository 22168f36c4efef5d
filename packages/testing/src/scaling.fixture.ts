import { expect, test } from '@jest/globals';
import { useCluster } from './cluster.fixture.ts';
import { createLoad, type Load } from './crash.ts';
import { eventually } from './eventually.ts';
import { emittedBy } from './pipeline.fixture.ts';
import { endpointOf } from './platform.fixture.ts';
import type { ServiceProcess } from './service-process.ts';

const SOURCES = 12;
/** Of the queue `runs`. */
const PARTITIONS = 32;

/** Its state counts its runs. */
const COUNTING = `export default {
  name: 'Counting',
  props: { http: '$.interface.http', db: '$.service.db' },
  run(event) {
    const n = (this.db.get('n') ?? 0) + 1;
    this.db.set('n', n);
    this.$emit({ ...event.body, n });
  },
};`;

export function scalingSuite(): void {
  const fixture = useCluster({ replicas: { runner: 4 } });

  /** Number of partitions of `runs` that a process owns. */
  async function shareOf({ adminUrl }: ServiceProcess): Promise<number> {
    const headers = { authorization: `Bearer ${fixture.cluster.adminKey}` };
    const text = await (await fetch(`${adminUrl}/metrics`, { headers })).text();
    return Number(/^wellspring_queue_partitions\{.*queue="runs".*\} (\d+)$/m.exec(text)?.[1]);
  }

  const running = () => fixture.cluster.of('runner').filter(({ pid }) => pid !== undefined);

  /** All partitions are owned, evenly, by this number of runners. */
  async function evenAmong(count: number): Promise<number[]> {
    return eventually(
      async () => {
        const shares = await Promise.all(running().map(shareOf));
        expect(shares).toHaveLength(count);
        expect(shares.reduce((a, b) => a + b)).toBe(PARTITIONS);
        expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1);
        return shares.sort((a, b) => b - a);
      },
      { ms: 30_000, every: 50 },
    );
  }

  test('1, 2 and 4 runners share the partitions evenly, and each source stays in order when runners join, leave or die', async () => {
    const { cluster } = fixture;
    const [first, second, third, fourth] = cluster.of('runner') as [
      ServiceProcess,
      ServiceProcess,
      ServiceProcess,
      ServiceProcess,
    ];
    const shares: Record<string, number[]> = {};
    shares['4'] = await evenAmong(4);
    await Promise.all([second, third, fourth].map((one) => one.end('SIGTERM')));
    shares['1'] = await evenAmong(1);

    const sources = await Promise.all(
      Array.from({ length: SOURCES }, () => cluster.client.createSource({ component_code: COUNTING })),
    );
    // One connection each: the next call is sent when the previous one was accepted.
    const loads: Load[] = sources.map((source, index) => createLoad(`s${index}_`, [endpointOf(source)], 1));
    const steps: [name: string, count: number, step: () => Promise<unknown>][] = [
      ['2', 2, () => second.start()],
      ['2 to 4', 4, () => Promise.all([third.start(), fourth.start()])],
      ['one of 4 is killed', 3, () => third.end('SIGKILL')],
      ['it comes back', 4, () => third.start()],
      ['two of 4 leave', 2, () => Promise.all([first.end('SIGTERM'), second.end('SIGTERM')])],
    ];
    for (const [name, count, step] of steps) {
      await Promise.all(loads.map((load) => load.acceptedMore(10)));
      await step();
      shares[name] = await evenAmong(count);
      await Promise.all(loads.map((load) => load.acceptedMore(10)));
    }
    await Promise.all(loads.map((load) => load.stop()));

    let accepted = 0;
    for (const [index, { id }] of sources.entries()) {
      const load = loads[index]!;
      accepted += load.accepted.size;
      expect({ failed: load.failed, unanswered: load.unanswered }).toEqual({ failed: 0, unanswered: 0 });
      const events = await emittedBy(cluster.client, id, load.accepted);
      expect(events.map(({ event }) => event.id)).toEqual([...load.accepted]);
      expect(events.map(({ event }) => event.n)).toEqual(events.map((_, n) => n + 1));
    }
    console.info(`${accepted} calls of ${SOURCES} sources; shares:`, shares);
  }, 600_000);
}

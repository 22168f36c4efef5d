import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { type Healed, strike } from './chaos.ts';
import { useCluster } from './cluster.fixture.ts';
import { seededRandom } from './crash.ts';
import { checkPipeline, deployPipeline, type Pipeline } from './pipeline.fixture.ts';

/**
 * Kills and freezes processes of every service, the broker, Redis and the database under load, cuts single processes off
 * from single servers, and checks that no accepted call is lost. `CHAOS_SEED` repeats a run;
 * `CHAOS_KILLS=200 CHAOS_OUTAGE_MS=12000` is the long form.
 */

/** More than twice the lease of a partition. */
const REDIS_OUTAGE_MS = 15_000;
/** A round of six strikes kills at most eight: three rounds hit every server in both ways. */
const KILLS = Number(process.env.CHAOS_KILLS ?? 16);
const SEED = Number(process.env.CHAOS_SEED ?? Date.now() % 1_000_000);
const MAX_OUTAGE_MS = Number(process.env.CHAOS_OUTAGE_MS ?? 2_000);
/** Pause between two calls of a connection: limits the backlog of long outages. */
const PAUSE_MS = MAX_OUTAGE_MS > 10_000 ? 60 : 0;
/** Strikes between two checks for lost events. */
const ROUND = 10;
/** Deliveries that one strike may repeat, in each of two processes: in progress, or with an unwritten outcome. */
const REPEATED = 2 * 64;

export function chaosSuite(): void {
  const fixture = useCluster({ networks: true });

  const percentile = (values: readonly number[], share: number) =>
    [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))]!;

  /** The long form takes an hour. */
  const say = (line: string) => process.env.CHAOS_KILLS && process.stderr.write(`${line}\n`);

  function summary(healed: readonly Healed[]): string {
    const kinds = [...new Set(healed.map(({ kind }) => kind))];
    return kinds
      .map((kind) => {
        const own = healed.filter((one) => one.kind === kind).map(({ healedMs }) => healedMs);
        const [p50, most] = [percentile(own, 0.5), Math.max(...own)].map(Math.round);
        return `${kind}: ${own.length} times, back after ${p50} ms (p50), ${most} ms (most)`;
      })
      .join('\n');
  }

  test('while a gateway, a runner and a delivery process have lost Redis alone, all calls are accepted, and nothing is lost or emitted twice', async () => {
    const { cluster, sink } = fixture;
    const pipeline = await deployPipeline(cluster, sink);
    const loads = fixture.load(pipeline);
    const acceptedMore = () => Promise.all(loads.map((load) => load.acceptedMore(50)));
    await acceptedMore();
    const cut = (['gateway', 'runner', 'delivery'] as const).map(
      (service) => cluster.networksOf(cluster.of(service)[0]!).redis,
    );
    for (const network of cut) network.silence();
    await pause(REDIS_OUTAGE_MS);
    await acceptedMore();
    for (const network of cut) {
      network.cut();
      network.heal();
    }
    await acceptedMore();
    await Promise.all(loads.map((load) => load.stop()));
    const outcome = await checkPipeline(cluster, pipeline, loads, sink);
    expect(loads.map(({ failed }) => failed)).toEqual([0, 0]);
    await deletePipeline(pipeline);
    console.info('A gateway, a runner and a delivery process without Redis', outcome);
  }, 600_000);

  async function deletePipeline({ listening, counting, plain, webhookId }: Pipeline): Promise<void> {
    const { client } = fixture.cluster;
    for (const { id } of [listening, counting, plain]) await client.deleteSource({ id });
    await client.deleteWebhook({ id: webhookId });
    fixture.sink.clear();
  }

  test(`accepted calls are emitted once and delivered, over ${KILLS} kills, with freezes and cuts (seed ${SEED})`, async () => {
    const { cluster, sink } = fixture;
    const { rabbit, redis, mongo } = fixture.servers;
    const random = seededRandom(SEED);
    const healed: Healed[] = [];
    const sum = { accepted: 0, unanswered: 0, emitted: 0, deliveredTwice: 0 };
    const killed = () => healed.reduce((all, { kills }) => all + kills, 0);
    while (killed() < KILLS) {
      const pipeline = await deployPipeline(cluster, sink);
      const loads = fixture.load(pipeline, { pauseMs: PAUSE_MS });
      healed.push(
        ...(await strike({
          cluster,
          servers: [rabbit, redis, mongo],
          loads,
          random,
          strikes: ROUND,
          kills: KILLS - killed(),
          before: healed.length,
          longestOutageMs: MAX_OUTAGE_MS,
          onStrike: ({ kind, what, outageMs, healedMs }) =>
            say(`${kind}: ${what}: away ${Math.round(outageMs)} ms, healed ${Math.round(healedMs)} ms`),
        })),
      );
      await Promise.all(loads.map((load) => load.stop()));
      const outcome = await checkPipeline(cluster, pipeline, loads, sink);
      for (const name of ['accepted', 'unanswered', 'emitted', 'deliveredTwice'] as const) {
        sum[name] += outcome[name];
      }
      say(`${killed()} kills: ${JSON.stringify(sum)}`);
      await deletePipeline(pipeline);
    }
    expect(sum.deliveredTwice).toBeLessThanOrEqual(healed.length * REPEATED);
    console.info(`${killed()} kills: ${JSON.stringify(sum)}\n${summary(healed)}`);
  }, 7_200_000);
}

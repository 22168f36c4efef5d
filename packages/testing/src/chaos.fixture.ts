import { expect, test } from '@jest/globals';
import { type Healed, strike } from './chaos.ts';
import { useCluster } from './cluster.fixture.ts';
import { seededRandom } from './crash.ts';
import { checkPipeline, deployPipeline } from './pipeline.fixture.ts';

/**
 * Nothing that was accepted is lost whatever dies: processes of every service, the broker, Redis and the database are
 * killed under load and come back. `CHAOS_SEED` repeats a run; `CHAOS_KILLS=200 CHAOS_OUTAGE_MS=60000` is the long
 * form, `CHAOS_NODES=3` has RabbitMQ and MongoDB fail over.
 */

/** At most eight die in three strikes, of which one hits a server: so many hit all of the servers. */
const KILLS = Number(process.env.CHAOS_KILLS ?? 24);
const SEED = Number(process.env.CHAOS_SEED ?? Date.now() % 1_000_000);
const LONGEST_OUTAGE_MS = Number(process.env.CHAOS_OUTAGE_MS ?? 2_000);
/** Of RabbitMQ and of MongoDB each: with three, one node of the cluster or the primary of the replica set dies. */
const NODES = Number(process.env.CHAOS_NODES ?? 1);
/** Between two calls of a connection: what gathers in long outages has to be borne afterwards, and looked through. */
const REST_MS = LONGEST_OUTAGE_MS > 10_000 ? 60 : 0;
/** After so many strikes it is looked whether anything was lost. A database that stands in for another bears no more at a time. */
const ROUND = 10;
/** Deliveries that one death may repeat, in each of two processes: under way, and with an outcome not written yet. */
const REPEATED = 2 * 64;

export function chaosSuite(): void {
  const fixture = useCluster({ rabbitNodes: NODES, mongoMembers: NODES });

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

  test(`what was accepted is emitted once and delivered, over ${KILLS} kills of anything (seed ${SEED})`, async () => {
    const { cluster, sink } = fixture;
    const { rabbit, redis, mongo } = fixture.servers;
    const random = seededRandom(SEED);
    const healed: Healed[] = [];
    const sum = { accepted: 0, unanswered: 0, emitted: 0, deliveredTwice: 0 };
    const killed = () => healed.reduce((all, { kills }) => all + kills, 0);
    while (killed() < KILLS) {
      const pipeline = await deployPipeline(cluster.client, sink);
      const loads = fixture.load(pipeline, { restMs: REST_MS });
      healed.push(
        ...(await strike({
          cluster,
          servers: [rabbit, redis, mongo],
          loads,
          random,
          strikes: ROUND,
          kills: KILLS - killed(),
          before: healed.length,
          longestOutageMs: LONGEST_OUTAGE_MS,
          onStrike: ({ what, outageMs, healedMs }) =>
            say(`${what}: away ${Math.round(outageMs)} ms, healed ${Math.round(healedMs)} ms`),
        })),
      );
      await Promise.all(loads.map((load) => load.stop()));
      const outcome = await checkPipeline(cluster, pipeline, loads, sink);
      for (const name of ['accepted', 'unanswered', 'emitted', 'deliveredTwice'] as const) {
        sum[name] += outcome[name];
      }
      say(`${killed()} kills: ${JSON.stringify(sum)}`);
      for (const { id } of [pipeline.listening, pipeline.counting, pipeline.plain]) {
        await cluster.client.deleteSource({ id });
      }
      await cluster.client.deleteWebhook({ id: pipeline.webhookId });
      sink.clear();
    }
    expect(sum.deliveredTwice).toBeLessThanOrEqual(KILLS * REPEATED);
    console.info(`${killed()} kills: ${JSON.stringify(sum)}\n${summary(healed)}`);
  }, 7_200_000);
}

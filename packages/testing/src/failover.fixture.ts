import { expect, test } from '@jest/globals';
import { useCluster } from './cluster.fixture.ts';
import { eventually } from './eventually.ts';
import { keepEvidence } from './evidence.ts';
import { checkPipeline, deployPipeline } from './pipeline.fixture.ts';

const SILENT = `export default { name: 'Silent', run() {} };`;

/**
 * Three servers each, as in production: nodes of RabbitMQ die under load, and the primary of MongoDB steps down, dies,
 * or is frozen, after which the outcome of its last writes is unknown for a while.
 */
export function failoverSuite(): void {
  const fixture = useCluster({ rabbitNodes: 3, mongoMembers: 3 });

  test('after the loss of a RabbitMQ node or the MongoDB primary nothing is lost or emitted twice', async () => {
    const { cluster, sink } = fixture;
    const { mongo, rabbit } = fixture.servers;
    const pipeline = await deployPipeline(cluster, sink);
    const loads = fixture.load(pipeline);
    const acceptedMore = () => Promise.all(loads.map((load) => load.acceptedMore(50)));
    const afterMs: Record<string, number> = {};
    // Offset to the times in the logs.
    const taken: string[] = [];
    const steps: [name: string, step: () => Promise<void>, back?: () => Promise<void> | void][] = [
      ['primary told to step down', mongo.stepDown],
      ['first node killed', rabbit.kill, rabbit.start],
      ['primary killed', mongo.kill, mongo.start],
      ['second node killed', rabbit.kill, rabbit.start],
      ['primary frozen', mongo.freeze, mongo.resume],
      ['third node killed', rabbit.kill, rabbit.start],
      ['primary killed once more', mongo.kill, mongo.start],
    ];
    const go = async () => {
      for (const [name, step, back] of steps) {
        await acceptedMore();
        taken.push(`${new Date().toISOString()} ${name}`);
        await step();
        const gone = performance.now();
        // Without the dead node.
        await acceptedMore();
        afterMs[name] = Math.round(performance.now() - gone);
        // The services reach each other.
        await eventually(() => cluster.client.createSource({ component_code: SILENT }), { ms: 10_000 });
        await back?.();
        await acceptedMore();
      }
      await Promise.all(loads.map((load) => load.stop()));
      const outcome = await checkPipeline(cluster, pipeline, loads, sink);
      // Messages whose confirmations RabbitMQ lost with a leader are redelivered.
      const held = async () =>
        (await rabbit.queues()).split('\n').filter((line) => line && !line.includes('\t0\t0\t'));
      await eventually(async () => expect(await held()).toEqual([]), { ms: 20_000, every: 500 });
      return outcome;
    };
    const outcome = await go()
      .catch(async (error) => {
        const directory = await keepEvidence(cluster, fixture.servers);
        console.error(`What there is now is kept in ${directory}\n${taken.join('\n')}`);
        throw error;
      })
      .finally(() => Promise.all(loads.map((load) => load.stop())));
    expect(outcome.accepted).toBeGreaterThan(steps.length * 100);
    console.info('Calls are accepted by every gateway, ms after the', afterMs, outcome);
  }, 600_000);
}

import { expect, test } from '@jest/globals';
import { useCluster } from './cluster.kit.ts';
import { checkRoad, deployRoad } from './road.kit.ts';

/**
 * MongoDB as it is operated: a replica set of three whose primary makes way for another under load. It is told to,
 * it dies, and it is frozen: then what was written is not known for a while, not even to the others.
 */
export function failoverSuite(): void {
  const kit = useCluster({ members: 3 });

  test('another primary of MongoDB takes over, however the one before went: nothing is lost or emitted twice', async () => {
    const { cluster, sink } = kit;
    const { mongo } = kit.servers;
    const road = await deployRoad(cluster.client, sink);
    const loads = kit.load(road);
    const acceptedMore = () => Promise.all(loads.map((load) => load.acceptedMore(50)));
    const afterMs: Record<string, number> = {};
    const steps: [name: string, step: () => Promise<void>, back?: () => Promise<void> | void][] = [
      ['told to step down', mongo.stepDown],
      ['killed', mongo.kill, mongo.start],
      ['frozen', mongo.freeze, mongo.resume],
      ['killed once more', mongo.kill, mongo.start],
    ];
    for (const [name, step, back] of steps) {
      await acceptedMore();
      await step();
      const gone = performance.now();
      // Without the one that is gone.
      await acceptedMore();
      afterMs[name] = Math.round(performance.now() - gone);
      await back?.();
      await acceptedMore();
    }
    await Promise.all(loads.map((load) => load.stop()));
    const outcome = await checkRoad(cluster, road, loads, sink);
    expect(outcome.accepted).toBeGreaterThan(steps.length * 100);
    console.info('Calls are accepted again after ms of the primary being', afterMs, outcome);
  }, 600_000);
}

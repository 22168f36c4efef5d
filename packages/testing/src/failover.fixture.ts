import { expect, test } from '@jest/globals';
import { useCluster } from './cluster.fixture.ts';
import { eventually } from './eventually.ts';
import { keepEvidence } from './evidence.ts';
import { checkPipeline, deployPipeline, emittedBy } from './pipeline.fixture.ts';

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

  test('while RabbitMQ blocks publishers, calls are refused at once with 503, and none that was accepted is lost', async () => {
    const { cluster, sink } = fixture;
    const { rabbit } = fixture.servers;
    const { plain } = await deployPipeline(cluster, sink);
    const [gateway] = cluster.of('gateway');
    const filler = 'x'.repeat(400_000);
    const accepted = new Set<string>();
    let sent = 0;
    const call = async () => {
      const id = `b${++sent}`;
      const body = JSON.stringify({ id, filler });
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(gateway!.url + plain.path, { method: 'POST', body, headers });
      await answer.arrayBuffer();
      if (answer.ok) accepted.add(id);
      return answer;
    };
    const isReady = async () => (await fetch(`${gateway!.url}/ready`)).ok;
    expect((await call()).status).toBe(200);

    await rabbit.alarm(true);
    // The broker tells a publisher with its next message.
    await eventually(async () => !(await call()).ok, { ms: 30_000 });
    for (let round = 0; round < 5; round += 1) {
      const answers = await Promise.all(Array.from({ length: 20 }, call));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]));
      expect(answers[0]!.headers.get('retry-after')).toMatch(/^\d+$/);
    }
    expect(await isReady()).toBe(false);

    await rabbit.alarm(false);
    await eventually(isReady, { ms: 30_000 });
    await eventually(async () => (await call()).ok, { ms: 30_000 });
    const emitted = await emittedBy(cluster.client, plain.id, accepted);
    // The call that met the alarm was refused, but may have been published.
    const ids = emitted.map(({ event }) => event.id);
    expect(ids.filter((id) => accepted.has(id))).toEqual([...accepted]);
    expect(ids.length - accepted.size).toBeLessThanOrEqual(1);
  }, 300_000);
}

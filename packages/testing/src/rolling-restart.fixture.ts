import { expect, test } from '@jest/globals';
import { type Client, createClient } from '@wellspring/client/client';
import { useCluster } from './cluster.fixture.ts';
import { checkPipeline, deployPipeline } from './pipeline.fixture.ts';

export function rollingRestartSuite(): void {
  const fixture = useCluster();

  /** Reads and writes through a gateway until it is stopped; returns the failed responses. */
  async function useApi(client: Client, running: () => boolean): Promise<unknown[]> {
    const failures: unknown[] = [];
    while (running()) {
      try {
        const { id } = await client.createWebhook({ url: fixture.sink.url, name: 'for a moment' });
        await client.listWebhookDeliveries({ id });
        await client.deleteWebhook({ id });
      } catch (error) {
        // Expected while this gateway itself is replaced: a load balancer would not use it.
        if (!/ECONNREFUSED|ECONNRESET|other side closed/.test(String((error as Error).cause ?? error)))
          failures.push(error);
      }
    }
    return failures;
  }

  test('every process is replaced under load: no 5xx, nothing lost, no stream has a gap', async () => {
    const { cluster, sink } = fixture;
    const pipeline = await deployPipeline(cluster, sink);
    const loads = fixture.load(pipeline);
    const clients = cluster.of('gateway').map(({ url }) => createClient({ url, key: cluster.apiKey }));
    let replacing = true;
    const apiUsers = clients.map((client) => useApi(client, () => replacing));
    const closing = new AbortController();
    const seen: string[][] = clients.map(() => []);
    const streams = clients.map(async (client, index) => {
      const { signal } = closing;
      try {
        const args = { id: pipeline.plain.id, last_event_id: '0-0' };
        for await (const { id } of await client.streamSource(args, { signal })) seen[index]!.push(id);
      } catch (error) {
        if (!signal.aborted) throw error;
      }
    });

    for (const one of cluster.processes) {
      expect([cluster.nameOf(one), await one.end('SIGTERM')]).toEqual([cluster.nameOf(one), 0]);
      await one.start();
      await Promise.all(loads.map((load) => load.acceptedMore(20)));
    }
    replacing = false;
    expect((await Promise.all(apiUsers)).flat()).toEqual([]);
    await Promise.all(loads.map((load) => load.stop()));
    expect(loads.map(({ failed, unanswered }) => ({ failed, unanswered }))).toEqual([
      { failed: 0, unanswered: 0 },
      { failed: 0, unanswered: 0 },
    ]);
    const outcome = await checkPipeline(cluster, pipeline, loads, sink);

    const wanted: string[] = [];
    const all = await cluster.client.streamSource({ id: pipeline.plain.id, last_event_id: '0-0' });
    for await (const { id } of all) {
      wanted.push(id);
      if (wanted.length === loads[0].accepted.size) break;
    }
    closing.abort();
    await Promise.all(streams);
    for (const ids of seen) expect(ids).toEqual(wanted);
    console.info(`${cluster.processes.length} processes replaced:`, outcome);
  }, 900_000);
}

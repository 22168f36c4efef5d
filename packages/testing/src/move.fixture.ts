import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type Cluster, startCluster } from './cluster.ts';
import { createLoad, type Load } from './crash.ts';
import { checkPipeline, deployPipeline } from './pipeline.fixture.ts';
import { type Platform, startPlatform } from './platform.ts';
import { runMove } from './run-move.ts';
import { type ServerSet, startServers } from './servers/server-set.ts';
import { type TempDir, tempDir } from './temp-dir.ts';
import { createWebhookSink, type WebhookSink } from './webhook-sink.ts';

const SECRET_KEY = 'the root key of every platform under test';
const env = { WELLSPRING_RETAIN_EVENTS: '1000000', WELLSPRING_SECRET_KEY: SECRET_KEY };

export function moveSuite(): void {
  let dir: TempDir;
  let elsewhere: TempDir;
  let servers: ServerSet;
  let platform: Platform;
  let cluster: Cluster | undefined;
  let sink: WebhookSink;

  beforeAll(async () => {
    [dir, elsewhere, sink] = await Promise.all([tempDir(), tempDir(), createWebhookSink()]);
    servers = await startServers();
    platform = await startPlatform({ dataDir: dir.path, env });
  }, 180_000);
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]();
    await platform?.end('SIGKILL');
    await servers?.[Symbol.asyncDispose]();
    await sink?.close();
    await dir?.remove();
    await elsewhere?.remove();
  }, 60_000);

  const move = (dataDir: string) => runMove(dataDir, { urls: servers.urls, secretKey: SECRET_KEY });

  test('one command takes everything from one process to many: nothing lost, nothing twice, the same keys', async () => {
    const pipeline = await deployPipeline(platform, sink);
    // Nothing is delivered yet, and the process dies with waiting jobs.
    sink.answer({ status: 503 });
    const paths = [pipeline.plain.path, pipeline.counting.path];
    const loads = paths.map((path, i) => createLoad(i === 0 ? 'p' : 'c', [platform.url + path], 4)) as [
      Load,
      Load,
    ];
    await Promise.all(loads.map((load) => load.acceptedMore(200)));
    const refused = await move(dir.path);
    expect([refused.code, refused.output]).toEqual([1, expect.stringContaining('in use by another process')]);
    await platform.end('SIGKILL');
    await Promise.all(loads.map((load) => load.stop()));

    expect((await move(elsewhere.path)).output).toContain('holds no data');
    const moved = await move(dir.path);
    expect([moved.code, moved.output]).toEqual([0, expect.stringMatching(/sources: 3 rows[\s\S]*Done/)]);
    expect((await move(dir.path)).output).toContain('moved before');
    // The old data directory refuses to start.
    await expect(platform.start()).rejects.toThrow('was moved to other servers');

    sink.answer({ status: 200 });
    cluster = await startCluster({ urls: servers.urls, dataDir: elsewhere.path, replicas: 1, env });
    const { data } = await cluster.client.listWebhookDeliveries({ id: pipeline.webhookId, limit: 100 });
    expect(data.length).toBeGreaterThan(0);
    for (const [i, load] of loads.entries()) load.moveTo([cluster.url + paths[i]!]);
    const outcome = await checkPipeline(cluster, pipeline, loads, sink);
    expect(outcome.accepted).toBeGreaterThanOrEqual(400);
  }, 300_000);
}

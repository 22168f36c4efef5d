import { afterAll, beforeAll } from '@jest/globals';
import { type Cluster, type ClusterOptions, startCluster } from './cluster.ts';
import { createLoad, type Load } from './crash.ts';
import type { Pipeline } from './pipeline.fixture.ts';
import { type ServerSet, type ServerSetOptions, startServers } from './servers/server-set.ts';
import { type TempDir, tempDir } from './temp-dir.ts';
import { createWebhookSink, type WebhookSink } from './webhook-sink.ts';

/** What a suite has while its tests run. */
export interface ClusterKit {
  servers: ServerSet;
  cluster: Cluster;
  sink: WebhookSink;
  /** Calls to both sources of a pipeline, each by all gateways in turns. */
  load(
    pipeline: Pipeline,
    options?: { connections?: number; restMs?: number },
  ): [plain: Load, counting: Load];
}

/** The platform in the distributed mode for the tests of a suite, with servers of its own that may be killed. */
export function useCluster(options: Pick<ClusterOptions, 'replicas'> & ServerSetOptions = {}): ClusterKit {
  let dir: TempDir | undefined;
  const fixture = {
    load({ plain, counting }, { connections = 2, restMs = 0 } = {}) {
      const urls = (path: string) => fixture.cluster.of('gateway').map(({ url }) => url + path);
      return [
        createLoad('p', urls(plain.path), connections, restMs),
        createLoad('c', urls(counting.path).reverse(), connections, restMs),
      ];
    },
  } as ClusterKit;

  beforeAll(async () => {
    dir = await tempDir();
    fixture.sink = await createWebhookSink();
    fixture.servers = await startServers(options);
    fixture.cluster = await startCluster({
      urls: fixture.servers.urls,
      dataDir: dir.path,
      ...(options.replicas && { replicas: options.replicas }),
      env: { WELLSPRING_RETAIN_EVENTS: '1000000' },
    });
  }, 180_000);

  afterAll(async () => {
    await fixture.cluster?.[Symbol.asyncDispose]();
    await fixture.servers?.[Symbol.asyncDispose]();
    await fixture.sink?.close();
    await dir?.remove();
  }, 60_000);

  return fixture;
}

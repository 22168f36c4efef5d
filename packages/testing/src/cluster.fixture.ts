import { afterAll, beforeAll } from '@jest/globals';
import { type Cluster, type ClusterOptions, startCluster } from './cluster.ts';
import { createLoad, type Load } from './crash.ts';
import type { Pipeline } from './pipeline.fixture.ts';
import { type ServerSet, type ServerSetOptions, startServers } from './servers/server-set.ts';
import { type TempDir, tempDir } from './temp-dir.ts';
import { createWebhookSink, type WebhookSink } from './webhook-sink.ts';

/** Between two calls of a connection, so that the serial workflow of the pipeline keeps up. */
const PAUSE_MS = 60;

export interface ClusterKit {
  servers: ServerSet;
  cluster: Cluster;
  sink: WebhookSink;
  /** Calls both sources of a pipeline, each through all gateways in turn. */
  load(
    pipeline: Pipeline,
    options?: { connections?: number; pauseMs?: number },
  ): [plain: Load, counting: Load];
}

/** The distributed platform for the tests of a suite, with separate servers that may be killed. */
export function useCluster(
  options: Pick<ClusterOptions, 'replicas' | 'networks'> & ServerSetOptions = {},
): ClusterKit {
  let dir: TempDir | undefined;
  const fixture = {
    load({ plain, counting }, { connections = 2, pauseMs = PAUSE_MS } = {}) {
      const urls = (path: string) => fixture.cluster.of('gateway').map(({ url }) => url + path);
      return [
        createLoad('p', urls(plain.path), connections, pauseMs),
        createLoad('c', urls(counting.path).reverse(), connections, pauseMs),
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
      ...(options.networks && { networks: true }),
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

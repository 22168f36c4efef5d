import type { Client } from '@wellspring/client/client';
import { type Platform, startPlatform } from '@wellspring/testing/platform';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';

export interface BenchPlatform extends AsyncDisposable {
  /** Parent of the sandbox processes. */
  pid: number;
  deploy(receiver: string): Promise<string>;
}

/** Emits the body of each call. */
export const PASS_ON = `export default {
  name: 'bench',
  props: { http: '$.interface.http' },
  run(event) { this.$emit(event.body); },
};`;

/** Deploys an HTTP source that emits the body, with a webhook. @returns its endpoint */
export async function deployRoad(client: Client, receiver: string): Promise<string> {
  const source = await client.createSource({ component_code: PASS_ON });
  const webhook = await client.createWebhook({ url: receiver });
  await client.createSubscription({ emitter_id: source.id, listener_id: webhook.id });
  return (source.configured_props.http as { endpoint_url: string }).endpoint_url;
}

/**
 * Starts the platform in a separate process on a new data directory.
 * @param nodeFlags e.g. `--cpu-prof --cpu-prof-dir=…`: the profile is written when it is disposed of
 */
export async function startBenchPlatform(nodeFlags: readonly string[] = []): Promise<BenchPlatform> {
  const dir: TempDir = await tempDir();
  const platform: Platform = await startPlatform({
    dataDir: dir.path,
    nodeFlags,
    env: { WELLSPRING_RETAIN_EVENTS: '1000000' },
  });
  const { client } = platform;
  return {
    pid: platform.pid!,
    deploy: (receiver) => deployRoad(client, receiver),
    async [Symbol.asyncDispose]() {
      await platform.end('SIGTERM');
      process.stderr.write(platform.output());
      await dir.remove();
    },
  };
}

import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Client } from '@wellspring/client/client';
import { type Platform, startPlatform } from '@wellspring/testing/platform';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';

export interface BenchPlatform extends AsyncDisposable {
  /** Parent of the sandbox processes. */
  pid: number;
  deploy(receiver: string): Promise<string>;
  /** Statements executed so far. */
  statements(): Promise<number>;
  /** Stops the platform. @returns bytes of the database file */
  stop(): Promise<number>;
}

/** Emits the body of each call. */
export const PASS_ON = `export default {
  name: 'bench',
  props: { http: '$.interface.http' },
  run(event) { this.$emit(event.body); },
};`;

/** Deploys an HTTP source that emits the body, with a webhook for each URL. @returns its endpoint */
export async function deployRoad(client: Client, ...receivers: string[]): Promise<string> {
  const source = await client.createSource({ component_code: PASS_ON });
  for (const url of receivers) {
    const webhook = await client.createWebhook({ url });
    await client.createSubscription({ emitter_id: source.id, listener_id: webhook.id });
  }
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
    async statements() {
      const text = await (await fetch(`${platform.adminUrl}/metrics`)).text();
      return Number(/^wellspring_sqlite_statements (\S+)$/m.exec(text)?.[1]);
    },
    async stop() {
      await platform.end('SIGTERM');
      return (await stat(join(dir.path, 'wellspring.db'))).size;
    },
    async [Symbol.asyncDispose]() {
      await platform.end('SIGTERM');
      process.stderr.write(platform.output());
      await dir.remove();
    },
  };
}

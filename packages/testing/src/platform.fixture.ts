import { afterAll, beforeAll } from '@jest/globals';
import { type Response, send } from './http.ts';
import { type Platform, type PlatformOptions, startPlatform } from './platform.ts';
import { type TempDir, tempDir } from './temp-dir.ts';
import { createWebhookSink, type WebhookSink } from './webhook-sink.ts';

/** A whole platform, its data directory and a receiver of webhooks. */
export let platform: Platform;
export let dataDir: string;
export let sink: WebhookSink;

/** Starts them before the tests of the suite. */
export function usePlatform(options: Omit<PlatformOptions, 'dataDir'> = {}): void {
  let dir: TempDir | undefined;
  beforeAll(async () => {
    dir = await tempDir();
    dataDir = dir.path;
    sink = await createWebhookSink();
    platform = await startPlatform({ ...options, dataDir });
  }, 120_000);
  afterAll(async () => {
    await platform?.end('SIGKILL');
    await sink?.close();
    await dir?.remove();
  });
}

/** URL of the endpoint of a source. */
export const endpointOf = ({ configured_props }: { configured_props: object }, prop = 'http'): string =>
  (configured_props as Record<string, { endpoint_url: string }>)[prop]!.endpoint_url;

/** Posts JSON to this machine. */
export function post(url: string, body: unknown): Promise<Response> {
  const { port, pathname } = new URL(url);
  const headers = { 'content-type': 'application/json' };
  return send(Number(port), 'POST', pathname, { headers, body: JSON.stringify(body) });
}

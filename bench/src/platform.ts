import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ended } from './processes.ts';

const MAIN = fileURLToPath(new URL('../../services/all/src/main.ts', import.meta.url));
const API_KEY = 'ws_benchbenchbenchbenchbenchbench0';

/** Ports that are free now, all different. */
async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  const ports = await Promise.all(
    servers.map(
      (server) =>
        new Promise<number>((resolve) => {
          server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port));
        }),
    ),
  );
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

export interface BenchPlatform {
  child: ChildProcess;
  /** An HTTP source that emits the body it gets, subscribed to by a webhook; gives its endpoint. */
  deploy(receiver: string): Promise<string>;
  stop(): Promise<void>;
}

/** The whole platform in a process of its own on a fresh data directory. */
export async function startPlatform(): Promise<BenchPlatform> {
  const dataDir = mkdtempSync(join(tmpdir(), 'wellspring-bench-'));
  const [port, adminPort] = await freePorts(2);
  const url = `http://127.0.0.1:${port}`;
  const flags = process.env.BENCH_NODE_FLAGS?.split(' ') ?? [];
  const child = spawn(process.execPath, [...flags, MAIN], {
    env: {
      ...process.env,
      WELLSPRING_PORT: String(port),
      WELLSPRING_ADMIN_PORT: String(adminPort),
      WELLSPRING_DATA_DIR: dataDir,
      WELLSPRING_API_KEY: API_KEY,
      WELLSPRING_API_RATE: '0',
      WELLSPRING_ALLOW_NETWORKS: '127.0.0.0/8',
      WELLSPRING_LOG_LEVEL: 'warn',
      WELLSPRING_LOG_FORMAT: 'json',
    },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  for (let tries = 0; tries < 300; tries++) {
    if ((await fetch(`${url}/ready`).catch(() => undefined))?.ok) break;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }

  async function post(path: string, body: unknown): Promise<Record<string, unknown>> {
    const answer = await fetch(`${url}/v1${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`);
    return ((await answer.json()) as { data: Record<string, unknown> }).data;
  }

  return {
    child,
    async deploy(receiver) {
      const component_code = `export default {
        name: 'bench',
        props: { http: '$.interface.http' },
        run(event) { this.$emit(event.body); },
      };`;
      const source = await post('/sources', { component_code });
      const webhook = await post('/webhooks', { url: receiver });
      await post('/subscriptions', { emitter_id: source.id, listener_id: webhook.id });
      return (source.configured_props as { http: { endpoint_url: string } }).http.endpoint_url;
    },
    async stop() {
      child.kill('SIGTERM');
      await ended(child);
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { echoTimes, endBareNode, startBareNode } from './bare-node.ts';
import type { BenchSandbox } from './bench-sandbox.ts';
import { ms, p50, type Row } from './goals.ts';

const REQUESTS = Number(process.env.BENCH_REQUESTS ?? 400);

/** Times of GET requests in ms: over new connections, and over a persistent one. */
const MEASURE = `async (url, requests) => {
  const times = { fresh: [], kept: [] };
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const get = (using) => new Promise((resolve, reject) => {
    const began = process.hrtime.bigint();
    http.get(url, { agent: using }, (response) => {
      response.resume().on('end', () => resolve(Number(process.hrtime.bigint() - began) / 1e6));
    }).on('error', reject);
  });
  for (let n = 0; n < requests; n += 1) {
    times.fresh.push(await get(new http.Agent({ keepAlive: false })));
    times.kept.push(await get(agent));
    // Below the limit of new connections a second.
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  agent.destroy();
  return times;
}`;

interface Times {
  fresh: number[];
  kept: number[];
}

/** The same code in a bare Node.js process, which reaches the server itself. */
async function measureDirectly(url: string): Promise<Times> {
  const program = `import http from 'node:http'; const measure = ${MEASURE};
    await measure('${url}', 20); console.log(JSON.stringify(await measure('${url}', ${REQUESTS})));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
  return JSON.parse(stdout) as Times;
}

/** Round trip to another process after a pause, ms (p50): two wake-ups, such as those that the relay adds to a request. */
async function echoWithPauses(): Promise<number> {
  const node = await startBareNode();
  const times: number[] = [];
  for (let n = 0; n < REQUESTS / 2; n += 1) {
    times.push(...(await echoTimes(node, 1, 500)));
    await pause(25);
  }
  await endBareNode(node);
  return p50(times);
}

/** Requests of a sandbox through the relay, compared with those of another process to the same server. */
export async function networkRows(sandbox: BenchSandbox): Promise<Row[]> {
  const server = createServer((_request, response) => response.end('ok'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  try {
    const component = await sandbox.component(
      `import http from 'node:http'; const measure = ${MEASURE};
       export default { name: 'get', async run({ url, requests }) { this.$emit(await measure(url, requests)); } };`,
    );
    // The relay runs for as long as the platform: V8 has optimized its code. That of a sandbox is as new as in direct.
    await component.call('network/0', { url, requests: 2 * REQUESTS }, 120_000);
    await component.call('network/1', { url, requests: 20 });
    const { emits } = await component.call('network/1', { url, requests: REQUESTS }, 120_000);
    const relayed = JSON.parse(emits[0]!) as Times;
    const direct = await measureDirectly(url);
    const echo = await echoWithPauses();
    const row = (what: string, kind: keyof Times, goal: number): Row => ({
      what: `${what}: relay − direct (p50)`,
      measured: p50(relayed[kind]) - p50(direct[kind]),
      goal,
      unit: ' ms',
      behind: `${ms(p50(relayed[kind]))} − ${ms(p50(direct[kind]))}; an echo between two processes ${ms(echo)}`,
    });
    return [row('request, new connection', 'fresh', 0.6), row('request, kept connection', 'kept', 0.2)];
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

import { startPlatform } from '@wellspring/testing/platform';
import { tempDir } from '@wellspring/testing/temp-dir';
import { Agent } from 'undici';
import { now } from './load.ts';
import { memoryOf, memoryOfCode } from './processes.ts';
import { ms, p50, percentileOf } from './sandbox/goals.ts';

const SOURCES = Number(process.env.BENCH_SOURCES ?? 500);
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const MEMORY_MB = Number(process.env.BENCH_MEMORY_MB ?? 4096);
const CONCURRENCY = 8;

/** Responds with the number of calls of its process. */
const COUNT = `let calls = 0; export default {
  name: 'count',
  props: { http: { type: '$.interface.http', customResponse: true } },
  run() { calls += 1; this.http.respond({ status: 200, body: String(calls) }); },
};`;

async function inTurn<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: CONCURRENCY }, async () => {
      while (next < items.length) await work(items[next++]!);
    }),
  );
}

/** Calls many sources in turn: memory, and the share of calls that find a warm process. */
export async function compareManySources(): Promise<void> {
  const dir = await tempDir();
  const agent = new Agent({ connections: CONCURRENCY });
  const platform = await startPlatform({
    dataDir: dir.path,
    env: {
      WELLSPRING_MEMORY_MB: String(MEMORY_MB),
      WELLSPRING_API_RATE: '0',
      WELLSPRING_ISOLATION: process.env.BENCH_TIER ?? 'auto',
    },
  });
  try {
    const endpoints: string[] = [];
    await inTurn(Array.from({ length: SOURCES }), async () => {
      const source = await platform.client.createSource({ component_code: COUNT });
      endpoints.push((source.configured_props.http as { endpoint_url: string }).endpoint_url);
    });
    const times = { cold: [] as number[], warm: [] as number[] };
    let failed = 0;
    let [whole, sandboxes] = [0, 0];
    for (let round = 0; round < ROUNDS; round += 1) {
      await inTurn(endpoints, async (url) => {
        const began = now();
        const answer = await fetch(url, { method: 'POST', dispatcher: agent } as RequestInit);
        const text = await answer.text();
        const calls = answer.ok ? Number(text) : 0;
        if (calls === 0) failed += 1;
        else times[calls === 1 ? 'cold' : 'warm'].push(now() - began);
      });
      whole = Math.max(whole, memoryOf(platform.pid!));
      sandboxes = Math.max(sandboxes, memoryOfCode(platform.pid!));
    }
    const calls = SOURCES * ROUNDS;
    const share = ({ length }: number[]) => `${((length / calls) * 100).toFixed(0)} %`;
    const mb = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(0)} MB`;
    console.log(`\n${SOURCES} sources called in turn, ${ROUNDS} rounds, ${CONCURRENCY} at a time\n`);
    for (const [name, values] of Object.entries(times)) {
      if (values.length === 0) console.log(`${name}: none`);
      else
        console.log(
          `${name}: ${share(values)} of the calls, p50 ${ms(p50(values))}, p99 ${ms(percentileOf(values, 99))}`,
        );
    }
    const budget = (MEMORY_MB / 2) * 1024 * 1024;
    console.log(`failed: ${failed} of ${calls}`);
    console.log(
      `memory of the sandboxes: ${mb(sandboxes)}, budget ${mb(budget)}: ${sandboxes <= budget ? 'met' : 'missed'} (with the platform: ${mb(whole)})`,
    );
  } finally {
    await platform.end('SIGTERM');
    await agent.close();
    await dir.remove();
  }
}

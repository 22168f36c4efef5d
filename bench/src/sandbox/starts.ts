import { now } from '../load.ts';
import { endBareNode, startBareNode } from './bare-node.ts';
import { type BenchSandbox, type Component, openBenchSandbox } from './bench-sandbox.ts';
import { ms, p50, type Row } from './goals.ts';

const STARTS = Number(process.env.BENCH_STARTS ?? 30);
const TRIVIAL = `export default { name: 'trivial', run(event) { this.$emit(event); } };`;
const AXIOS = `import axios from 'axios@1'; export default { name: 'axios', run(event) { this.$emit(typeof axios.get); } };`;

/** Size of the pool of `openBenchSandbox`. */
const POOL = 4;

/** Time to the first result with a process of the pool or a new one, compared with bare Node.js. */
export async function startRows(
  isolation: 'bubblewrap' | 'launcher' | 'none',
  pooled: BenchSandbox,
): Promise<Row[]> {
  await using empty = await openBenchSandbox(isolation, { pool: 0 });
  /** Measured while no process starts in advance. */
  async function firstResult(sandbox: BenchSandbox, component: Component, key: string): Promise<number> {
    await pooled.poolReady(POOL);
    const began = now();
    await component.call(key);
    const took = now() - began;
    sandbox.executor.retire(key, { atOnce: true });
    return took;
  }

  const components = {
    hit: await pooled.component(TRIVIAL),
    hitAxios: await pooled.component(AXIOS),
    miss: await empty.component(TRIVIAL),
    missAxios: await empty.component(AXIOS),
  };
  const times = {
    node: [] as number[],
    hit: [] as number[],
    hitAxios: [] as number[],
    miss: [] as number[],
    missAxios: [] as number[],
  };
  for (let n = -2; n < STARTS; n += 1) {
    const node = await startBareNode();
    await endBareNode(node);
    const round = {
      node: node.readyMs,
      hit: await firstResult(pooled, components.hit, `starts/hit${n}`),
      hitAxios: await firstResult(pooled, components.hitAxios, `starts/axios${n}`),
      miss: await firstResult(empty, components.miss, `starts/miss${n}`),
      missAxios: await firstResult(empty, components.missAxios, `starts/missAxios${n}`),
    };
    if (n < 0) continue;
    for (const [name, took] of Object.entries(round)) times[name as keyof typeof times].push(took);
  }
  const node = p50(times.node);
  const row = (what: string, values: readonly number[], goal: number): Row => ({
    what: `${what} : start of a bare Node.js (p50)`,
    measured: p50(values) / node,
    goal,
    unit: '×',
    behind: `${ms(p50(values))} : ${ms(node)}`,
  });
  return [
    row('pool hit, first result', times.hit, 0.15),
    row('pool hit with axios', times.hitAxios, 0.9),
    row('pool miss', times.miss, 1.6),
    row('pool miss with axios', times.missAxios, 3.5),
  ];
}

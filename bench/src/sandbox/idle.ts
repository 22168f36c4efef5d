import { cpuUsedBelow, treeOf, usedMemory } from '../processes.ts';
import { endBareNode, startBareNode } from './bare-node.ts';
import type { BenchSandbox } from './bench-sandbox.ts';
import { ms, p50, type Row } from './goals.ts';

const SOURCES = 12;
const TRIVIAL = `export default { name: 'idle', run(event) { this.$emit(event); } };`;
const BURNER = `export default { name: 'burner', run() { setInterval(() => { const end = Date.now() + 9; while (Date.now() < end); }, 10); } };`;
const ENDLESS = `export default { name: 'endless', run() { for (;;); } };`;
const WATCHED_MS = 2000;
const DEADLINE_MS = 200;

const pause = (duration: number) => new Promise((resolve) => setTimeout(resolve, duration));

/** Private memory of each Node.js process of these trees, ascending. */
const privateMemory = (pids: readonly number[]) => pids.map(usedMemory).sort((a, b) => a - b);

/** Cost of idle sources, and the time until endless code is killed. */
export async function idleRows(sandbox: BenchSandbox): Promise<Row[]> {
  const component = await sandbox.component(TRIVIAL);
  const before = new Set(treeOf(process.pid));
  for (let n = 0; n < SOURCES; n += 1) await component.call(`idle/${n}`);
  const nodes = await Promise.all(Array.from({ length: SOURCES }, startBareNode));
  await pause(1000);
  const bare = nodes.map(({ child }) => child.pid!);
  const bareBytes = p50(privateMemory(bare));
  const added = treeOf(process.pid).filter((pid) => !before.has(pid) && !bare.includes(pid));
  // A sandbox may consist of several processes: the largest ones run Node.js.
  const sandboxBytes = p50(privateMemory(added).slice(-SOURCES));
  await Promise.all(nodes.map(endBareNode));
  sandbox.executor.retire('idle/', { atOnce: true });

  const burner = await sandbox.component(BURNER);
  await burner.call('burner/1');
  await pause(500);
  const burnt = (await cpuUsedBelow(WATCHED_MS)) / (WATCHED_MS / 1000);
  sandbox.executor.retire('burner/', { atOnce: true });

  const endless = await sandbox.component(ENDLESS);
  const late: number[] = [];
  for (let n = 0; n < 10; n += 1) {
    const { durationMs } = await endless.call('endless/1', {}, DEADLINE_MS);
    late.push(durationMs - DEADLINE_MS);
  }
  const mb = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(1)} MB`;
  return [
    {
      what: 'private memory of an idle source : bare Node.js',
      measured: sandboxBytes / bareBytes,
      goal: 2.3,
      unit: '×',
      behind: `${mb(sandboxBytes)} : ${mb(bareBytes)}`,
    },
    {
      what: 'processor time of a source that spins when idle',
      measured: burnt,
      goal: 0.02,
      unit: ' s/s',
      behind: `over ${WATCHED_MS / 1000} s`,
    },
    {
      what: 'end of a run after its deadline (p50)',
      measured: p50(late),
      goal: 50,
      unit: ' ms',
      behind: ms(Math.max(...late)),
    },
  ];
}

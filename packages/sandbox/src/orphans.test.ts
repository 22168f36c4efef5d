import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { afterEach, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { TIERS } from './sandbox.kit.ts';

/** A platform of its own: opens a sandbox, starts an endless loop in it and says so. */
const PLATFORM = (tier: string, dataDir: string) => `
  import { systemClock } from '@wellspring/core/clock';
  import { silentLog } from '@wellspring/core/log';
  import { createSandbox } from '@wellspring/sandbox/sandbox';
  const { executor } = await createSandbox({ dataDir: ${JSON.stringify(dataDir)}, isolation: '${tier}', pool: 2,
    codeAllowNetworks: [], packageEnvironment: {}, clock: systemClock, log: silentLog });
  const bundle = { format: 'esm', packages: {}, lockfile: null,
    code: 'export default { name: "x", run() { console.log("in"); setTimeout(() => { for (;;); }, 1); return new Promise(() => {}) } }' };
  const instance = { source_id: 'dc_x', props: [], values: {}, endpoints: {}, db: {}, dbRevision: 0 };
  executor.execute(
    { process: 'a/1', bundle, bundleId: 'endless', instance,
      call: { kind: 'run', trigger: { kind: 'value', json: '{}' }, emitTrigger: false } },
    { emit() {}, fault() {}, respond() {}, dbSet: () => 0, log: () => console.log('running') },
    { timeoutMs: 300_000 },
  );
`;

/** Processes that run the program of a sandbox and whose descriptors lead to this platform: all below it. */
function descendants(pid: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
    } catch {
      // It has ended meanwhile.
    }
  }
  const found = [pid];
  for (const parent of found) {
    for (const [child, of] of parents) if (of === parent) found.push(child);
  }
  return found.slice(1);
}

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

let platform: ChildProcess | undefined;
let directory: TempDir | undefined;
afterEach(async () => {
  platform?.kill('SIGKILL');
  await directory?.remove();
});

test.each(TIERS)('no process of tier %s outlives a platform that is killed', async (tier) => {
  directory = await tempDir();
  const running = spawn(
    process.execPath,
    ['--input-type=module', '--disable-warning=ExperimentalWarning', '-e', PLATFORM(tier, directory.path)],
    { cwd: import.meta.dirname, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  platform = running;
  await once(createInterface(running.stdout!), 'line');
  const children = descendants(running.pid!);
  expect(children.length).toBeGreaterThanOrEqual(2);
  running.kill('SIGKILL');
  await eventually(() => children.every((pid) => !isAlive(pid)), { ms: 5000 });
});

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { afterEach } from '@jest/globals';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { tempDir } from '@wellspring/testing/temp-dir';

/** All descendants of a process. */
export function descendants(pid: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
    } catch {
      // The process has ended.
    }
  }
  const found = [pid];
  for (const parent of found) {
    for (const [child, of] of parents) if (of === parent) found.push(child);
  }
  return found.slice(1);
}

export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

export const isStopped = (pid: number): boolean =>
  /^State:\s+T/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));

/** Empty for a process that has ended. */
export function argumentsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

/** Real, effective, saved and file system user ids, as the host sees them. */
export const uidsOf = (pid: number): number[] =>
  /^Uid:\s+(.*)$/m
    .exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]!
    .split('\t')
    .map(Number);

/** Whether the process runs the program of the children, by its arguments. */
export const isSandboxed = (pid: number): boolean => {
  const args = argumentsOf(pid);
  return /node$/.test(args[0] ?? '') && args.some((arg) => arg.endsWith('child.mjs'));
};

export interface Stat {
  pid: number;
  /** R: running · S: sleeping · T: stopped */
  state: string;
  /** Processor time, in units of 10 ms. */
  ticks: number;
}

function statOf(pid: number): Stat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const [state = ''] = fields;
    return { pid, state, ticks: Number(fields[11]) + Number(fields[12]) };
  } catch {
    return undefined;
  }
}

/** Descendant processes that run user code. */
export const codeProcesses = (): Stat[] =>
  descendants(process.pid).flatMap((pid) => (isSandboxed(pid) ? (statOf(pid) ?? []) : []));

/** Code that uses this much processor time, measured inside. */
export const BURN = `const burn = (ms) => { const from = process.cpuUsage(); for (;;) {
  const { user, system } = process.cpuUsage(from); if (user + system > ms * 1000) return; } };`;

/** Opens a sandbox, runs code that writes a file into new directories and then loops, and reports it. */
const PLATFORM = (tier: string, dataDir: string) => `
  import { systemClock } from '@wellspring/core/clock';
  import { silentLog } from '@wellspring/core/log';
  import { noMetrics } from '@wellspring/core/metrics';
  import { createSandbox } from '@wellspring/sandbox/sandbox';
  const { executor } = await createSandbox({ dataDir: ${JSON.stringify(dataDir)}, isolation: '${tier}', pool: 2,
    codeAllowNetworks: [], platform: { names: [], listenerPorts: [], endpoints: [] }, packageEnvironment: {}, clock: systemClock, log: silentLog, metrics: noMetrics });
  const bundle = { format: 'esm', packages: {}, lockfile: null,
    code: 'import fs from "node:fs"; import os from "node:os"; export default { name: "x", run() {' +
      'fs.mkdirSync(os.tmpdir() + "/a/b", { recursive: true }); fs.writeFileSync(os.tmpdir() + "/a/b/c", "c"); console.log("in"); setTimeout(() => { for (;;); }, 1); return new Promise(() => {}) } }' };
  const instance = { source_id: 'dc_x', props: [], values: {}, endpoints: {}, db: {}, dbRevision: 0 };
  executor.execute(
    { processKey: 'a/1', readBundle: async () => bundle, bundleId: 'endless', instance,
      call: { kind: 'run', trigger: { kind: 'value', json: '{}' }, emitTrigger: false } },
    { emit() {}, fault() {}, respond() {}, dbSet: () => 0, log: () => console.log('running') },
    { timeoutMs: 300_000 },
  );
`;

/** A platform in a separate process that runs user code. */
export async function startPlatform(
  tier: string,
  dataDir: string,
  {
    node = process.execPath,
    temporary,
    ...user
  }: {
    /** Its Node.js binary. */
    node?: string;
    uid?: number;
    gid?: number;
    /** Its TMPDIR. */
    temporary?: string;
  } = {},
): Promise<ChildProcess> {
  const platform = spawn(
    node,
    ['--input-type=module', '--disable-warning=ExperimentalWarning', '-e', PLATFORM(tier, dataDir)],
    {
      ...user,
      cwd: import.meta.dirname,
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, ...(temporary === undefined ? {} : { TMPDIR: temporary }) },
    },
  );
  await once(createInterface(platform.stdout!), 'line');
  return platform;
}

/** A directory for each test, and platforms that are killed after it. */
export function usePlatforms() {
  const platforms: ChildProcess[] = [];
  afterEach(() => {
    for (const platform of platforms.splice(0)) platform.kill('SIGKILL');
  });
  const directory = forEachTest(tempDir);
  async function start(...given: Parameters<typeof startPlatform>): Promise<ChildProcess> {
    const platform = await startPlatform(...given);
    platforms.push(platform);
    return platform;
  }
  return { directory, start };
}

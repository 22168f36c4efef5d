import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { type Client, createClient } from '@wellspring/client/client';
import { silentLog } from '@wellspring/core/log';
import { lowerPriority, onProcessors, processorsForCode } from '@wellspring/sandbox/scheduling';
import { startPlatform } from '@wellspring/testing/platform';
import { tempDir } from '@wellspring/testing/temp-dir';
import { Agent, request } from 'undici';
import { ATTACKS, type Attack, ECHO } from './hostile-code.ts';
import { type Measured, measureVictim } from './hostile-victim.ts';
import { ms, p50, percentileOf } from './sandbox/goals.ts';

/** Of each row; of fewer than a thousand calls, a few decide p99. */
const SECONDS = Number(process.env.BENCH_SECONDS ?? 40);
/** Calls of the victim per second, at a fixed rate. */
const RATE = Number(process.env.BENCH_RATE ?? 25);
/** Names of attacks, separated by semicolons; default: all. */
const ONLY = process.env.BENCH_ATTACKS?.split(';');
const GOAL = 2;
const SETTLE_MS = 3_000;

interface Endpoint {
  id: string;
  url: string;
}

const DEPLOY_ATTEMPTS = 30;

/** An attacker may be refused because of earlier attacks; then it retries. */
async function deploy(client: Client, code: string): Promise<Endpoint> {
  let source: Awaited<ReturnType<Client['createSource']>> | undefined;
  for (let attempt = 1; source === undefined; attempt++) {
    try {
      source = await client.createSource({ component_code: code });
    } catch (error) {
      if (attempt === DEPLOY_ATTEMPTS) throw error;
      await pause(1_000);
    }
  }
  return { id: source.id, url: (source.configured_props.http as { endpoint_url: string }).endpoint_url };
}

/** Deploys the sources of an attack and calls them repeatedly until the signal is aborted. */
async function startAttack(client: Client, attack: Attack, agent: Agent, stop: AbortSignal) {
  const ids: string[] = [];
  const running: Promise<unknown>[] = [];
  const repeat = async (work: () => Promise<unknown>) => {
    while (!stop.aborted) {
      await work().catch(() => {});
      await pause(attack.everyMs, undefined, { signal: stop }).catch(() => {});
    }
  };
  if (attack.code === undefined) {
    let n = 0;
    running.push(repeat(() => client.createComponent({ component_code: attack.upload!(n++) })));
  } else {
    const endpoints: Endpoint[] = [];
    for (let at = 0; at < attack.sources; at++) endpoints.push(await deploy(client, attack.code));
    for (const { id, url } of endpoints) {
      ids.push(id);
      running.push(
        repeat(async () => (await request(url, { method: 'POST', dispatcher: agent })).body.dump()),
      );
    }
  }
  return async () => {
    await Promise.allSettled(running);
    for (const id of ids) await client.deleteSource({ id });
  };
}

/** It ends by itself if the bench is interrupted. */
const SPIN = `const end = Date.now() + ${(SECONDS + 10) * 1000}; while (Date.now() < end);`;

/**
 * Control: processes that spin beside the platform, one for each processor, on the processors and with the priority of
 * user code. What they do to the latency is the scheduler's, and no limit of the platform.
 * @returns ends them
 */
function startSpinning(): () => void {
  const processes = Array.from({ length: availableParallelism() }, () => {
    const [file, ...args] = onProcessors(processorsForCode(1, silentLog), [process.execPath, '-e', SPIN]);
    const child = spawn(file, args, { detached: true, stdio: 'ignore' });
    lowerPriority(child.pid);
    return child;
  });
  return () => {
    for (const child of processes) child.kill('SIGKILL');
  };
}

/** Effect of one tenant's attacks on the latency of another tenant's endpoint, relative to the baseline of the same run. */
export async function compareHostile(): Promise<void> {
  const dir = await tempDir();
  const platform = await startPlatform({
    dataDir: dir.path,
    env: {
      WELLSPRING_API_RATE: '0',
      WELLSPRING_LOG_LEVEL: 'error',
      WELLSPRING_ISOLATION: process.env.BENCH_TIER ?? 'auto',
    },
  });
  const theirs = new Agent({ connections: 64 });
  try {
    const attacker = await platform.operator.operatorCreateUser({
      username: 'attacker',
      email: 'attacker@example.com',
    });
    const client = createClient({ url: platform.url, key: attacker.api_key });
    const victim = await deploy(platform.client, ECHO);
    const measure = (seconds: number) => measureVictim({ url: victim.url, seconds, rate: RATE });
    await measure(3);
    const baseline: Measured = { times: [], failed: 0 };
    /** Before each row, since the machine varies within minutes. */
    const measureBaseline = async () => {
      const { times, failed } = await measure(SECONDS);
      baseline.times.push(...times);
      baseline.failed += failed;
    };
    const describe = ({ times, failed }: Measured) =>
      `p50 ${ms(p50(times))}, p95 ${ms(percentileOf(times, 95))}, p99 ${ms(percentileOf(times, 99))}, failed ${failed}`;
    const ratios = ({ times }: Measured) =>
      [50, 95, 99].map((p) => percentileOf(times, p) / percentileOf(baseline.times, p));
    const shown = (values: readonly number[]) =>
      [50, 95, 99].map((p, index) => `p${p} ${values[index]!.toFixed(2)}x`.padStart(12)).join(' ');

    await measureBaseline();
    const endSpinning = startSpinning();
    await pause(1_000);
    const control = await measure(SECONDS).finally(endSpinning);
    const rows: { attack: Attack; during: Measured }[] = [];
    for (const attack of ATTACKS) {
      if (ONLY && !ONLY.includes(attack.name)) continue;
      await pause(SETTLE_MS);
      await measureBaseline();
      const stop = new AbortController();
      const ended = await startAttack(client, attack, theirs, stop.signal);
      await pause(1_000);
      rows.push({ attack, during: await measure(SECONDS) });
      stop.abort();
      await ended();
    }
    console.log(`\nA tenant's endpoint called ${RATE} times a second while another tenant attacks\n`);
    console.log(`baseline, before each row: ${describe(baseline)}`);
    console.log(`control, processes that spin beside it: ${shown(ratios(control))}   ${describe(control)}\n`);
    for (const { attack, during } of rows) {
      const [median, , p99] = ratios(during);
      const isMet = median! <= GOAL && p99! <= GOAL && during.failed === 0;
      console.log(
        [
          isMet ? 'met   ' : 'missed',
          `(${attack.number}) ${attack.name}`.padEnd(28),
          shown(ratios(during)),
          `  ${describe(during)}`,
        ].join(' '),
      );
    }
    console.log(`\ngoal: p50 and p99 ≤ ${GOAL}x, no call fails`);
  } finally {
    await theirs.destroy();
    await platform.end('SIGTERM');
    await dir.remove();
  }
}

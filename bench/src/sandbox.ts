import { openBenchSandbox } from './sandbox/bench-sandbox.ts';
import { callRows } from './sandbox/calls.ts';
import { printRows, type Row } from './sandbox/goals.ts';
import { idleRows } from './sandbox/idle.ts';
import { networkRows } from './sandbox/network.ts';
import { startRows } from './sandbox/starts.ts';

/** Only these parts, separated by commas: calls, starts, network, idle. */
const ONLY = process.env.BENCH_ONLY?.split(',');

/**
 * Cost of isolation, compared with bare Node.js processes in the same run. This process is the platform, so `pnpm bench`
 * starts it with the flags of `pnpm start`. BENCH_TIER names the tier; default bubblewrap.
 */
export async function compareSandbox(): Promise<void> {
  const tier = (process.env.BENCH_TIER ?? 'bubblewrap') as 'bubblewrap' | 'launcher' | 'none';
  await using sandbox = await openBenchSandbox(tier);
  const parts: Record<string, () => Promise<Row[]>> = {
    calls: () => callRows(tier),
    starts: () => startRows(tier, sandbox),
    network: () => networkRows(sandbox),
    idle: () => idleRows(sandbox),
  };
  console.log(`\nsandbox, tier ${tier}\n`);
  for (const [name, rows] of Object.entries(parts)) {
    if (ONLY === undefined || ONLY.includes(name)) printRows(await rows());
  }
}

import { compareDistributed } from './src/distributed.ts';
import { compareHostile } from './src/hostile.ts';
import { compareManySources } from './src/many-sources.ts';
import { comparePipeline } from './src/pipeline.ts';
import { compareSandbox } from './src/sandbox.ts';
import { measureSlowWebhooks } from './src/slow-webhooks.ts';
import { measureTicks } from './src/ticks.ts';

/** `pnpm bench` runs all benches, `pnpm bench NAME` one of them. */
const BENCHES: Record<string, () => Promise<void>> = {
  embedded: comparePipeline,
  distributed: compareDistributed,
  sandbox: compareSandbox,
  'many-sources': compareManySources,
  hostile: compareHostile,
  'slow-webhooks': measureSlowWebhooks,
  ticks: measureTicks,
};

const [only] = process.argv.slice(2);
if (only !== undefined && !Object.hasOwn(BENCHES, only)) {
  console.error(`Unknown bench ${only}. Choose one of ${Object.keys(BENCHES).join(', ')}.`);
  process.exitCode = 1;
} else {
  for (const [name, run] of Object.entries(BENCHES)) if (only === undefined || only === name) await run();
}

import { availableParallelism } from 'node:os';
import type { ComponentCode } from '@wellspring/contract/definition';
import { build } from 'esbuild';
import { createBundleCode } from '../bundle-code.ts';
import { jsonLines } from './lines.ts';

/** Program of the compiler in jails with an isolated file system: native esbuild. */

// The compiler uses half of the processors, as the code of an owner does while others have calls.
process.env.GOMAXPROCS = String(Math.max(1, Math.floor(availableParallelism() / 2)));

const bundleCode = createBundleCode(build);
for await (const code of jsonLines(process.stdin))
  process.stdout.write(`${JSON.stringify(await bundleCode(code as ComponentCode))}\n`);
process.exit(0);

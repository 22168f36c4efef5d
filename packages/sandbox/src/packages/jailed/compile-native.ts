import type { ComponentCode } from '@wellspring/contract/definition';
import { build } from 'esbuild';
import { createBundleCode } from '../bundle-code.ts';
import { jsonLines } from './lines.ts';

/** The compiler's program in a jail that has files of its own: esbuild as a native program. */

const bundleCode = createBundleCode(build);
for await (const code of jsonLines(process.stdin))
  process.stdout.write(`${JSON.stringify(await bundleCode(code as ComponentCode))}\n`);
process.exit(0);

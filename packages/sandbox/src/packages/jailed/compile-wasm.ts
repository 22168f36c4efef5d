import { readFile } from 'node:fs/promises';
import type { ComponentCode } from '@wellspring/contract/definition';
import { build, initialize } from 'esbuild-wasm/esm/browser.js';
import { createBundleCode } from '../bundle-code.ts';
import { jsonLines } from './lines.ts';

/**
 * Program of the compiler without jail: esbuild for browsers, which has no file system. Argument: the path of
 * esbuild.wasm.
 */

Object.assign(globalThis, { self: globalThis });
// Missing in the type declarations of the language.
const { WebAssembly: wasm } = globalThis as unknown as {
  WebAssembly: { compile(bytes: Uint8Array): Promise<WebAssembly.Module> };
};
await initialize({ wasmModule: await wasm.compile(await readFile(process.argv[2]!)), worker: false });

const bundleCode = createBundleCode(build);
for await (const code of jsonLines(process.stdin))
  process.stdout.write(`${JSON.stringify(await bundleCode(code as ComponentCode))}\n`);
process.exit(0);

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { parentPort } from 'node:worker_threads';
import type { ComponentCode } from '@wellspring/contract/definition';
import { initialize } from 'esbuild-wasm/esm/browser.js';
import { bundleCode } from './bundle-code.ts';

/** The entry of a compiler's thread: gets code, gives what bundleCode gives; what it throws ends the thread. */

// The compiler was made for a browser: it is given no file system.
Object.assign(globalThis, { self: globalThis });
const path = createRequire(import.meta.url).resolve('esbuild-wasm/esbuild.wasm');
// The type declarations of Node know of it, those of the language do not.
const { WebAssembly: wasm } = globalThis as unknown as {
  WebAssembly: { compile(bytes: Uint8Array): Promise<WebAssembly.Module> };
};
await initialize({ wasmModule: await wasm.compile(await readFile(path)), worker: false });

parentPort!.on('message', async (code: ComponentCode) => {
  parentPort!.postMessage(await bundleCode(code));
});

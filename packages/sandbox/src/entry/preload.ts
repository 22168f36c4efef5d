import { createRequire } from 'node:module';

/** Modules that many components or their packages load. */
const MODULES = [
  'node:assert',
  'node:crypto',
  'node:http',
  'node:http2',
  'node:https',
  'node:querystring',
  'node:readline',
  'node:stream/promises',
  'node:string_decoder',
  'node:tls',
  'node:tty',
  'node:zlib',
];

/** Loads modules while the process waits in the pool, so that the first call need not. */
export function preload(): void {
  const require = createRequire(import.meta.url);
  for (const name of MODULES) require(name);
  // The modules of `fetch` are loaded on first use.
  new Request('http://localhost/');
}

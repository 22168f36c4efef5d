import { createRequire } from 'node:module';

/** Modules that most components or their packages load. */
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

/** Loads what a first call would have to load. A process does so while it waits in the pool. */
export function preload(): void {
  const require = createRequire(import.meta.url);
  for (const name of MODULES) require(name);
  // What is behind `fetch` is loaded with its first use.
  new Request('http://localhost/');
}

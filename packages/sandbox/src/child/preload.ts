/**
 * Modules that most components or their packages load. A process loads them while it waits in the pool, so that a
 * first call does not.
 */
import 'node:assert';
import 'node:crypto';
import 'node:http';
import 'node:http2';
import 'node:https';
import 'node:querystring';
import 'node:readline';
import 'node:stream/promises';
import 'node:string_decoder';
import 'node:tls';
import 'node:tty';
import 'node:zlib';

/** What is behind `fetch` is loaded with its first use. */
export function preload(): void {
  new Request('http://localhost/');
}

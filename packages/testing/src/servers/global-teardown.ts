import { askDaemon } from './ask-daemon.ts';
import './global-setup.ts';

/**
 * Jest's globalTeardown, after its summary: stops the shared servers and lists those that were missing.
 * @throws Error when servers were missing and `CI` is set
 */
export default async function tearDown(): Promise<void> {
  const missing = Object.entries(await askDaemon('GET', '/missing'));
  await globalThis.wellspringDaemon?.end();
  for (const [name, reason] of missing) {
    process.stderr.write(`\nSKIPPED: the suites that need ${name}: ${reason}\n`);
  }
  if (missing.length > 0 && process.env.CI) {
    throw new Error(
      `Suites were skipped, because these servers are missing: ${missing.map(([name]) => name).join(', ')}`,
    );
  }
}

import { askKeeper } from './ask-keeper.ts';
import './global-setup.ts';

/**
 * Jest's globalTeardown, after the last line of its summary: ends the servers, and says which of them were missing.
 * @throws Error when some were, and `CI` is set
 */
export default async function tearDown(): Promise<void> {
  const missing = Object.entries(await askKeeper('GET', '/missing'));
  await globalThis.wellspringKeeper?.end();
  for (const [name, reason] of missing) {
    process.stderr.write(`\nSKIPPED: the suites that need ${name}: ${reason}\n`);
  }
  if (missing.length > 0 && process.env.CI) {
    throw new Error(`Suites were skipped for want of ${missing.map(([name]) => name).join(', ')}.`);
  }
}

import { readConfig } from '@wellspring/runtime/config';
import { setPrivateUmask } from '@wellspring/runtime/data-directory';
import { createLog } from '@wellspring/runtime/log';
import { reseal } from './reseal.ts';

/** `pnpm run reseal`: seals all secrets with the newest root key; the environment is that of the platform. */
setPrivateUmask();
try {
  const config = readConfig();
  const log = createLog({ ...config, logLevel: 'error' });
  await reseal({ config, log, say: (text) => process.stdout.write(`${text}\n`) });
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = 1;
}

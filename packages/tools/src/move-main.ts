import { ConfigError, readConfig } from '@wellspring/runtime/config';
import { setPrivateUmask } from '@wellspring/runtime/data-directory';
import { createLog } from '@wellspring/runtime/log';
import { move } from './move.ts';

/** `pnpm move`: moves a data directory to servers; the environment names both. */
setPrivateUmask();
try {
  const config = readConfig();
  const say = (text: string) => process.stdout.write(`${text}\n`);
  await move({ config, log: createLog({ ...config, logLevel: 'error' }), say });
  say(`Done. ${config.dataDir} is kept, but the platform no longer starts from it.`);
} catch (error) {
  const { message } = error as Error;
  process.stderr.write(`${error instanceof ConfigError ? message : `Not moved: ${message}`}\n`);
  process.exitCode = 1;
}

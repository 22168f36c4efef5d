import { ApiError } from '@wellspring/client/api-error';
import { createOperatorClient } from '@wellspring/client/client';
import { ConfigError, readConfig } from '@wellspring/runtime/config';
import { readOperatorKey } from '@wellspring/runtime/credentials';
import { urlHost } from '@wellspring/runtime/url-host';
import { describeReport, importFolder } from './import.ts';
import { createProgress } from './import-progress.ts';

/**
 * `pnpm run import FOLDER`: publishes the components of a folder. The address and the key of the operator API come
 * from the environment and the data directory of the platform.
 */
const [folder, ...more] = process.argv.slice(2);
if (folder === undefined || more.length > 0) {
  process.stderr.write('Usage: pnpm run import FOLDER\n');
  process.exit(2);
}
try {
  const config = readConfig();
  const url = `http://${urlHost(config.adminHost)}:${config.adminPort}`;
  const key = config.adminKey ?? readOperatorKey(config.dataDir);
  if (key === undefined) {
    throw new Error(
      `There is no key of the operator API in ${config.dataDir}: set WELLSPRING_DATA_DIR to the data directory of the platform, or WELLSPRING_ADMIN_KEY.`,
    );
  }
  const operator = createOperatorClient({ url, key });
  const progress = createProgress(process.stdout);
  const report = await importFolder({ folder, operator, progress });
  process.stdout.write(`${describeReport(report)}\n`);
  if (report.refused.size > 0) process.exitCode = 1;
} catch (error) {
  process.stderr.write(`${sentence(error)}\n`);
  process.exitCode = 2;
}

function sentence(error: unknown): string {
  const { message, cause } = error as Error & { cause?: { code?: string } };
  if (error instanceof ConfigError) return message;
  if (error instanceof ApiError) return `The operator API refused: ${message}`;
  if (message === 'fetch failed')
    return `The operator API does not answer (${cause?.code}); WELLSPRING_ADMIN_HOST and WELLSPRING_ADMIN_PORT name it.`;
  return message;
}

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startCluster } from './cluster.ts';
import { runMove } from './run-move.ts';
import { ensurePrograms } from './servers/programs.ts';
import { startServers } from './servers/server-set.ts';

/**
 * Runs the distributed platform with separate servers until a signal ends it, for suites that use HTTP. Writes its
 * addresses as lines of `NAME=value` to the standard output once it is ready. Variables in PASSED_ON apply to every
 * process.
 *
 *     node packages/testing/src/run-cluster.ts --replicas 2 DIRECTORY
 *
 * With `--moved`, it starts with the data of an embedded platform in that directory.
 */
const PASSED_ON = ['ISOLATION', 'MIN_INTERVAL_SECONDS', 'API_RATE', 'LOG_LEVEL'].map(
  (name) => `WELLSPRING_${name}`,
);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    replicas: { type: 'string', default: '2' },
    moved: { type: 'string' },
  },
});
const [dataDir] = positionals;
if (!dataDir) throw new Error('A directory is needed.');

for (const name of ['rabbitmq', 'redis', 'mongodb'] as const) {
  const missing = await ensurePrograms(name);
  if (missing) throw new Error(missing);
}
const stopped = Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
await using stack = new AsyncDisposableStack();
const { urls } = stack.use(await startServers());
const own = Object.entries(process.env).filter(([name]) => PASSED_ON.includes(name));
if (values.moved !== undefined) {
  const secretKey = readFileSync(join(values.moved, 'secret.key'), 'utf8').trim();
  const { code, output } = await runMove(values.moved, { urls, secretKey });
  process.stderr.write(output);
  if (code !== 0) throw new Error('The data directory could not be moved.');
  own.push(['WELLSPRING_SECRET_KEY', secretKey]);
}
const cluster = stack.use(
  await startCluster({
    urls,
    dataDir,
    replicas: Number(values.replicas),
    env: Object.fromEntries(own) as Record<string, string>,
  }),
);
console.log(`WELLSPRING_URL=${cluster.url}
WELLSPRING_ADMIN_URL=${cluster.adminUrl}
WELLSPRING_API_KEY=${cluster.apiKey}
WELLSPRING_ADMIN_KEY=${cluster.adminKey}
WELLSPRING_DATA_DIR=${dataDir}`);
await stopped;
await cluster.stop();
process.stderr.write(cluster.output());

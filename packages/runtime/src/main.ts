import { SERVICES } from '@wellspring/contract/endpoint';
import { StartRefused } from '@wellspring/core/start-refused';
import { LOOKUP_THREADS } from '@wellspring/http/egress';
import { shortenTimeSlices } from '@wellspring/sandbox/time-slice';
import {
  type Config,
  ConfigError,
  configTable,
  printConfig,
  readConfig,
  setLookupThreads,
  startScript,
  unknownVariables,
} from './config.ts';
import { setPrivateUmask } from './data-directory.ts';
import { endInOrder } from './end-of-process.ts';
import { findLaunchers } from './launchers.ts';
import { createLog } from './log.ts';
import { type Factories, type Running, runServices } from './run.ts';
import { urlHost } from './url-host.ts';

const USAGE = 'Usage: start [service ...] [--check-config] [--print-config] [--help]';

/**
 * Runs a process of the platform until a signal stops it. Arguments are names of services, and the flags
 * `--check-config`, `--print-config` and `--help`, which do not start anything.
 */
export async function main(
  factories: Factories,
  args: readonly string[] = process.argv.slice(2),
): Promise<void> {
  setLookupThreads(LOOKUP_THREADS);
  setPrivateUmask();
  const flags = args.filter((arg) => arg.startsWith('-'));
  const services = args.filter((arg) => !arg.startsWith('-') && arg !== 'start');
  if (flags.includes('--help')) {
    const meanings = configTable.map(({ name, fallback, meaning }) => `  ${name} (${fallback}): ${meaning}`);
    return say(`${USAGE}\n\nServices: ${SERVICES.join(', ')}\n\nSettings:\n${meanings.join('\n')}`);
  }
  const unknown = flags.find((flag) => flag !== '--check-config' && flag !== '--print-config');
  if (unknown) return fail(`Unknown argument ${unknown}. ${USAGE}`);
  const unknownOnes = unknownVariables();
  let config: Config;
  try {
    config = readConfig({ services });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const { message } = new ConfigError([...error.faults, ...unknownOnes]);
    return fail(message, flags.length > 0 ? 1 : EXIT_CONFIG);
  }
  if (flags.includes('--print-config')) return say(printConfig(config));
  if (flags.includes('--check-config')) {
    return unknownOnes.length > 0
      ? fail(new ConfigError(unknownOnes).message)
      : say('The configuration is valid.');
  }

  const log = createLog(config);
  for (const warning of unknownOnes) log.warn({ warning }, 'config.unknown_variable');
  // A closed output must not end the platform.
  process.stdout.on('error', () => {});
  process.stderr.on('error', () => {});
  let running: Running | undefined;
  endInOrder((limitMs) => running?.stop(limitMs) ?? Promise.resolve(false), {
    log,
    launchers: findLaunchers(startScript()),
  });
  try {
    running = await runServices(config, factories, log);
  } catch (error) {
    log.debug({ error: (error as Error).stack }, 'process.start_failed');
    fail((error as Error).message, error instanceof StartRefused ? EXIT_CONFIG : 1);
    process.exit();
  }
  // Once its threads run.
  void shortenTimeSlices(process.pid, log);
  if (config.logFormat === 'pretty') say(banner(running));
  log.info(
    { url: config.publicUrl, isolation: running.isolation, services: config.services },
    'process.started',
  );
}

/** EX_CONFIG of sysexits.h: a restart is useless. */
const EXIT_CONFIG = 78;

function fail(message: string, code = 1): void {
  process.stderr.write(`${message}\n`);
  process.exitCode = code;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

const ISOLATION = {
  bubblewrap: 'bubblewrap (namespaces and seccomp)',
  launcher: 'launcher (chroot, Landlock and seccomp)',
  none: 'NONE: user code runs as plain child processes. Run only code that you trust, or install the package bubblewrap.',
};

/** The API key is shown when it was generated, later only its file. */
function banner({ config, credentials, credentialsPath, isNewApiKey, isolation }: Running): string {
  const lines: [string, string][] = [
    ['API', `${config.publicUrl}/v1   (documentation: ${config.publicUrl}/docs)`],
    ['Operator', `http://${urlHost(config.adminHost)}:${config.adminPort}/admin/v1`],
    ['API key', isNewApiKey ? `${credentials.api_key}   (kept in ${credentialsPath})` : credentialsPath],
    ['Data', config.dataDir],
  ];
  if (isolation !== null) lines.push(['Isolation', ISOLATION[isolation]]);
  if (config.allowNetworks.length > 0) {
    lines.push(['Networks', `webhooks and component_url may also reach ${config.allowNetworks.join(', ')}`]);
  }
  const body = lines.map(([name, value]) => `  ${name.padEnd(10)} ${value}`).join('\n');
  return `\n  Wellspring is up.\n\n${body}\n`;
}

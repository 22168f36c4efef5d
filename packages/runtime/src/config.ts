import { SERVICES, type ServiceName } from '@wellspring/contract/endpoint';
import { nearest } from '@wellspring/core/nearest';
import { VARIABLES, type Variable } from './config-variables.ts';
import { urlHost } from './url-host.ts';

/** The configuration, checked and complete. See the table in the README, which is generated from this module. */
export interface Config {
  mode: 'embedded' | 'distributed';
  /** The services this process runs. */
  services: readonly ServiceName[];
  host: string;
  port: number;
  /** Origin under which the public listener is reached, without trailing slash. */
  publicUrl: string;
  /** Domain below which every endpoint key is a host; null: only `/e/{key}`. */
  endpointDomain: string | null;
  adminHost: string;
  adminPort: number;
  adminKey: string | null;
  apiKey: string | null;
  dataDir: string;
  amqpUrl: string | null;
  redisUrl: string | null;
  mongodbUrl: string | null;
  s3Url: string | null;
  /** Of `$.send.email` and `$.send.s3`; null: they fail. */
  smtpUrl: string | null;
  sendS3Url: string | null;
  /** Root keys, newest first; null: generated at the first start (embedded). */
  secretKeys: readonly string[] | null;
  /** CIDRs that webhooks and component URLs may reach beyond public addresses. */
  allowNetworks: readonly string[];
  /** The same for user code. */
  codeAllowNetworks: readonly string[];
  isolation: 'auto' | 'required' | 'bubblewrap' | 'launcher' | 'none';
  /** Number of processors that user code may not use. */
  reservedProcessors: number;
  /** Memory of this process with its sandboxes in MB; null: all of the container or machine. */
  memoryMb: number | null;
  minIntervalSeconds: number;
  /** API requests per second and key; 0: unlimited. */
  apiRate: number;
  /** Requests per second and endpoint; 0: unlimited. */
  endpointRate: number;
  /** Files of their calls that a process stores. */
  endpointFilesMb: number;
  /** Origins whose pages may call the API; `*`: all. */
  corsOrigins: readonly string[];
  trustProxy: readonly string[];
  logLevel: 'debug' | 'info' | 'warn' | 'error';
  logFormat: 'pretty' | 'json';
  retainEvents: number;
  retainDays: number;
  retainDeliveryDays: number;
  /** Origins of services in other processes, for the gateway; several take turns. */
  componentsUrl: readonly string[];
  sourcesUrl: readonly string[];
  subscriptionsUrl: readonly string[];
  webhooksUrl: readonly string[];
  eventsUrl: readonly string[];
}

/** All faults of the configuration. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly faults: readonly string[];
  constructor(faults: readonly string[]) {
    super(`The configuration is not valid:\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.faults = faults;
  }
}

type Field = keyof typeof VARIABLES;
type Parsed = { [F in Field]: ReturnType<(typeof VARIABLES)[F]['parse']> };

/** For the README. */
export const configTable: readonly Pick<Variable, 'name' | 'fallback' | 'meaning'>[] =
  Object.values(VARIABLES);

const LOOPBACK = ['127.0.0.0/8', '::1/128'];

export interface ConfigSources {
  /** Default: the environment of the process. */
  env?: Record<string, string | undefined>;
  /** Names of services; default: WELLSPRING_SERVICES. */
  services?: readonly string[];
  isTerminal?: boolean;
}

/** Reads and checks the whole configuration. @throws ConfigError with all faults */
export function readConfig({
  env = process.env,
  services = [],
  isTerminal = process.stdout.isTTY,
}: ConfigSources = {}): Config {
  const faults: string[] = [];
  const parsed = {} as Record<Field, unknown>;
  for (const [field, { name, parse }] of Object.entries(VARIABLES) as [Field, Variable][]) {
    const value = field === 'services' && services.length > 0 ? services.join(',') : env[name];
    try {
      parsed[field] = parse(value?.trim());
    } catch (error) {
      faults.push(`${name} ${(error as Error).message}`);
    }
  }
  if (faults.length > 0) throw new ConfigError(faults);

  const values = parsed as Parsed;
  faults.push(...crossFaults(values));
  if (faults.length > 0) throw new ConfigError(faults);
  return {
    ...values,
    mode: values.mongodbUrl === null ? 'embedded' : 'distributed',
    publicUrl: values.publicUrl ?? `http://${urlHost(values.host)}:${values.port}`,
    allowNetworks: values.allowNetworks ?? (values.mongodbUrl === null ? LOOPBACK : []),
    logFormat: values.logFormat ?? (isTerminal ? 'pretty' : 'json'),
  };
}

/** Unknown variables with the platform's prefix, each with the nearest known name. */
export function unknownVariables(env: Record<string, string | undefined> = process.env): string[] {
  const names = Object.values(VARIABLES).map(({ name }) => name);
  return Object.keys(env)
    .filter((name) => name.startsWith('WELLSPRING_') && !names.includes(name))
    .map((name) => {
      const meant = nearest(name, names);
      return `${name} is not a variable of Wellspring${meant ? `; did you mean ${meant}?` : '.'}`;
    });
}

/** Checks combinations of values. */
function crossFaults(values: Parsed): string[] {
  const faults: string[] = [];
  const servers = ['amqpUrl', 'redisUrl', 'mongodbUrl'] as const;
  const missing = servers.filter((field) => values[field] === null);
  if (missing.length === 0) {
    faults.push(...distributedFaults(values));
  } else if (missing.length < servers.length) {
    const names = missing.map((field) => VARIABLES[field].name).join(' and ');
    faults.push(`${names} not set: the distributed mode needs all three servers, the embedded mode none.`);
  } else if (values.services.length < SERVICES.length) {
    faults.push(
      `${VARIABLES.services.name} has to be all: one process runs everything in the embedded mode.`,
    );
  }
  if (values.s3Url !== null && missing.length > 0) {
    faults.push(`${VARIABLES.s3Url.name} is for the distributed mode.`);
  }
  if (values.host === values.adminHost && values.port === values.adminPort) {
    faults.push(`${VARIABLES.adminPort.name} has to differ from ${VARIABLES.port.name}.`);
  }
  return faults;
}

/** Values shared by several processes cannot be generated by each of them. */
function distributedFaults(values: Parsed): string[] {
  const { secretKeys, adminKey, publicUrl } = VARIABLES;
  const faults: string[] = [];
  const hasGateway = values.services.includes('gateway');
  if (values.secretKeys === null) {
    faults.push(`${secretKeys.name} has to be set in the distributed mode, the same for every process.`);
  }
  if (hasGateway && values.adminKey === null) {
    faults.push(`${adminKey.name} has to be set where the gateway runs in the distributed mode.`);
  }
  if (!hasGateway && values.publicUrl === null) {
    faults.push(`${publicUrl.name} has to be set where the gateway runs elsewhere.`);
  }
  return faults;
}

/** The configuration as lines of `NAME=value`, without its secrets. */
export function printConfig(config: Config): string {
  return (Object.entries(VARIABLES) as [Field, Variable][])
    .map(([field, { name, secret }]) => {
      const value = config[field];
      if (value === null) return `${name}=`;
      return `${name}=${secret ? '(secret)' : Array.isArray(value) ? value.join(',') : String(value)}`;
    })
    .join('\n');
}

/** Settings of npm, pnpm and proxies, and tokens that .npmrc files name; never keys of the platform. */
const PACKAGE_VARIABLES =
  /^(HOME|p?npm_config_\S+|P?NPM_CONFIG_\S+|NPM_TOKEN|NODE_AUTH_TOKEN|https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE)$/;

/** Environment variables for the gateway to the npm registry; the package manager itself gets none of them. */
export function packageEnvironment(
  env: Record<string, string | undefined> = process.env,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] => entry[1] !== undefined && PACKAGE_VARIABLES.test(entry[0]),
    ),
  );
}

/** File of certificate authorities that Node trusts in addition to its own; undefined if none is named. */
export const caFile = (env: Record<string, string | undefined> = process.env): string | undefined =>
  env.NODE_EXTRA_CA_CERTS || undefined;

/** Name of the script of package.json that started this process. */
export const startScript = (): string | undefined => process.env.npm_lifecycle_event;

/**
 * Node.js has four threads for look-ups, files and cryptography: slow name servers would occupy those for look-ups. To be
 * called before the first of them is needed.
 */
export function setLookupThreads(count: number, env: Record<string, string | undefined> = process.env): void {
  env.UV_THREADPOOL_SIZE ??= String(count);
}

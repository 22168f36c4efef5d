import { isIP } from 'node:net';
import { SERVICES, type ServiceName } from '@wellspring/contract/endpoint';
import { cidrList } from '@wellspring/core/addresses';

/** The configuration, checked and complete. See the table in the README, which is generated from this module. */
export interface Config {
  mode: 'embedded' | 'distributed';
  /** The services this process runs. */
  services: readonly ServiceName[];
  host: string;
  port: number;
  /** Origin under which the public listener is reached, without trailing slash. */
  publicUrl: string;
  /** Domain below which every endpoint key is a host of its own; null: only `/e/{key}`. */
  endpointDomain: string | null;
  adminHost: string;
  adminPort: number;
  adminKey: string | null;
  apiKey: string | null;
  dataDir: string;
  amqpUrl: string | null;
  redisUrl: string | null;
  mongodbUrl: string | null;
  /** Root keys, newest first; null: made on first start (embedded). */
  secretKeys: readonly string[] | null;
  /** CIDRs that webhooks and component URLs may reach beyond public addresses. */
  allowNetworks: readonly string[];
  /** The same for user code. */
  codeAllowNetworks: readonly string[];
  isolation: 'auto' | 'required' | 'bubblewrap' | 'launcher' | 'none';
  minIntervalSeconds: number;
  /** API requests a second and key; 0: unlimited. */
  apiRate: number;
  /** Requests a second and endpoint; 0: unlimited. */
  endpointRate: number;
  trustProxy: readonly string[];
  logLevel: 'debug' | 'info' | 'warn' | 'error';
  logFormat: 'pretty' | 'json';
  retainEvents: number;
  retainDays: number;
}

/** All that is wrong with the configuration. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly faults: readonly string[];
  constructor(faults: readonly string[]) {
    super(`The configuration is not valid:\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.faults = faults;
  }
}

interface Variable<T = unknown> {
  name: string;
  /** The default as the table shows it. */
  fallback: string;
  meaning: string;
  /** Its value is never shown. */
  secret: boolean;
  /** The value of a text; undefined: the variable is not set. @throws Error with what is wrong */
  parse(text: string | undefined): T;
}

const variable = <T>(
  name: string,
  fallback: string,
  meaning: string,
  parse: Variable<T>['parse'],
  secret = false,
): Variable<T> => ({ name: `WELLSPRING_${name}`, fallback, meaning, parse, secret });

/** An empty variable counts as unset. */
const given = <T, F>(parse: (text: string) => T, fallback: F) => {
  return (text: string | undefined): T | F => (text === undefined || text === '' ? fallback : parse(text));
};

const text = <F>(fallback: F) => given((value) => value, fallback);

const integer = (fallback: number, least: number, most: number = Number.MAX_SAFE_INTEGER) =>
  given((value) => {
    const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
    if (!(number >= least && number <= most)) {
      const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
      throw new Error(`has to be an integer ${range}`);
    }
    return number;
  }, fallback);

const oneOf = <const V extends string, F>(values: readonly V[], fallback: F) =>
  given((value) => {
    const found = values.find((one) => one === value);
    if (found === undefined) throw new Error(`has to be one of ${values.join(', ')}`);
    return found;
  }, fallback);

const listOf = (value: string) =>
  value
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');

/** Here an empty text is a value: no networks. */
const networks = <F>(fallback: F) => {
  return (value: string | undefined): readonly string[] | F => {
    if (value === undefined) return fallback;
    const cidrs = listOf(value);
    cidrList(cidrs);
    return cidrs;
  };
};

const url = (protocols: readonly string[]) =>
  given((value) => {
    const { protocol } = URL.canParse(value) ? new URL(value) : { protocol: '' };
    if (!protocols.includes(protocol)) throw new Error(`has to be a URL that starts with ${protocols[0]}//`);
    return value;
  }, null);

const origin = given((value) => {
  const parsed = URL.canParse(value) ? new URL(value) : undefined;
  if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.pathname !== '/' || parsed.search !== '') {
    throw new Error('has to be an origin such as https://events.example.com');
  }
  return parsed.origin;
}, null);

const key = given((value) => {
  if (!/^[A-Za-z0-9._~+/-]{16,256}$/.test(value)) {
    throw new Error('has to have 16 to 256 characters out of A-Z a-z 0-9 . _ ~ + / -');
  }
  return value;
}, null);

const rootKeys = given((value) => {
  const keys = listOf(value);
  if (keys.length === 0 || keys.some((one) => one.length < 32)) {
    throw new Error('has to be one or more keys of at least 32 characters, separated by commas');
  }
  return keys;
}, null);

const domain = given((value) => {
  if (!/^[a-z0-9.-]+(:\d+)?$/i.test(value)) throw new Error('has to be a domain such as hooks.example.com');
  return value.toLowerCase();
}, null);

const serviceNames = given((value) => {
  const names = listOf(value);
  const unknown = names.filter((name) => name !== 'all' && !SERVICES.includes(name as ServiceName));
  if (unknown.length > 0) {
    throw new Error(`names ${unknown.join(', ')}; the services are all, ${SERVICES.join(', ')}`);
  }
  return names.includes('all') ? SERVICES : SERVICES.filter((name) => names.includes(name));
}, SERVICES);

const VARIABLES = {
  host: variable('HOST', '127.0.0.1', 'Address of the public listener', text('127.0.0.1')),
  port: variable('PORT', '3000', 'Port of the public listener', integer(3000, 1, 65_535)),
  publicUrl: variable('PUBLIC_URL', 'from the two', 'Origin under which it is reached', origin),
  endpointDomain: variable(
    'ENDPOINT_DOMAIN',
    'none',
    'Domain below which every endpoint is a host of its own: `https://{key}.{domain}`',
    domain,
  ),
  adminHost: variable('ADMIN_HOST', '127.0.0.1', 'Address of the operator listener', text('127.0.0.1')),
  adminPort: variable('ADMIN_PORT', '3001', 'Port of the operator listener', integer(3001, 1, 65_535)),
  adminKey: variable('ADMIN_KEY', 'generated', 'Key of the operator API', key, true),
  apiKey: variable('API_KEY', 'generated', 'Preset API key of the user `admin`', key, true),
  dataDir: variable(
    'DATA_DIR',
    '`.wellspring`',
    'Database, queues, blobs and credentials',
    text('.wellspring'),
  ),
  amqpUrl: variable('AMQP_URL', 'none', 'RabbitMQ; not available yet', url(['amqp:', 'amqps:']), true),
  redisUrl: variable('REDIS_URL', 'none', 'Redis; not available yet', url(['redis:', 'rediss:']), true),
  mongodbUrl: variable(
    'MONGODB_URL',
    'none',
    'MongoDB; not available yet',
    url(['mongodb:', 'mongodb+srv:']),
    true,
  ),
  services: variable(
    'SERVICES',
    'all',
    'Which services this process runs, separated by commas; or names after `start`',
    serviceNames,
  ),
  secretKeys: variable(
    'SECRET_KEY',
    'generated into the data directory',
    'Root key of the encryption at rest and of the signatures between services; a list is a rotation, newest first',
    rootKeys,
    true,
  ),
  allowNetworks: variable(
    'ALLOW_NETWORKS',
    'loopback when embedded',
    'Private networks (CIDRs) that webhooks and `component_url` may reach; empty: none',
    networks(null),
  ),
  codeAllowNetworks: variable(
    'CODE_ALLOW_NETWORKS',
    'none',
    'Private networks (CIDRs) that the code of components may reach',
    networks([]),
  ),
  isolation: variable(
    'ISOLATION',
    '`auto`',
    '`auto`, `required` (refuses to start without isolation), or one tier: `bubblewrap`, `launcher`, `none`',
    oneOf(['auto', 'required', 'bubblewrap', 'launcher', 'none'], 'auto' as const),
  ),
  minIntervalSeconds: variable(
    'MIN_INTERVAL_SECONDS',
    '15',
    'Least interval of a timer, 1 at the lowest',
    integer(15, 1),
  ),
  apiRate: variable(
    'API_RATE',
    '100',
    'API requests a second per key, bursts twice that; 0: off',
    integer(100, 0),
  ),
  endpointRate: variable(
    'ENDPOINT_RATE',
    '0',
    'Requests a second per source endpoint, bursts twice that; 0: off',
    integer(0, 0),
  ),
  trustProxy: variable(
    'TRUST_PROXY',
    'none',
    'Networks (CIDRs) whose `x-forwarded-*` headers are believed',
    networks([]),
  ),
  logLevel: variable(
    'LOG_LEVEL',
    '`info`',
    '`debug`, `info`, `warn` or `error`',
    oneOf(['debug', 'info', 'warn', 'error'], 'info' as const),
  ),
  logFormat: variable(
    'LOG_FORMAT',
    '`pretty` on a terminal, else `json`',
    '`pretty` or `json`',
    oneOf(['pretty', 'json'], null),
  ),
  retainEvents: variable(
    'RETAIN_EVENTS',
    '10000',
    'Events kept per source, at least 100',
    integer(10_000, 100),
  ),
  retainDays: variable('RETAIN_DAYS', '7', 'Days that events are kept', integer(7, 1, 36_500)),
} satisfies Record<keyof Omit<Config, 'mode'>, Variable>;

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
    mode: 'embedded',
    publicUrl: values.publicUrl ?? `http://${urlHost(values.host)}:${values.port}`,
    allowNetworks: values.allowNetworks ?? LOOPBACK,
    logFormat: values.logFormat ?? (isTerminal ? 'pretty' : 'json'),
  };
}

/** What is wrong with values together. */
function crossFaults(values: Parsed): string[] {
  const faults: string[] = [];
  const servers = ['amqpUrl', 'redisUrl', 'mongodbUrl'] as const;
  const missing = servers.filter((field) => values[field] === null);
  if (missing.length === 0) {
    faults.push('The distributed mode (AMQP, Redis and MongoDB) is not available yet: unset the three URLs.');
  } else if (missing.length < servers.length) {
    const names = missing.map((field) => VARIABLES[field].name).join(' and ');
    faults.push(`${names} not set: the distributed mode needs all three servers, the embedded mode none.`);
  } else if (values.services.length < SERVICES.length) {
    faults.push(
      `${VARIABLES.services.name} has to be all: one process runs everything in the embedded mode.`,
    );
  }
  if (values.host === values.adminHost && values.port === values.adminPort) {
    faults.push(`${VARIABLES.adminPort.name} has to differ from ${VARIABLES.port.name}.`);
  }
  return faults;
}

/** An address as the host of a URL that reaches it from this machine. */
function urlHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return isIP(host) === 6 ? `[${host}]` : host;
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

const PACKAGE_MANAGER =
  /^(PATH|HOME|TMPDIR|LANG|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR)|(npm|pnpm)_config_.*|(https?|no|all)_proxy)$/i;

/** The part of the environment that a package manager needs to find its registry. Nothing of Wellspring's own. */
export function packageManagerEnvironment(
  env: Record<string, string | undefined> = process.env,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] => entry[1] !== undefined && PACKAGE_MANAGER.test(entry[0]),
    ),
  );
}

/** Settings of npm and of proxies, under the names that package managers read; never keys of the platform. */
const PACKAGE_VARIABLES =
  /^(HOME|PATH|npm_config_\w+|NPM_CONFIG_\w+|https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR))$/;

/** What the package manager gets of the environment to reach its registry. */
export function packageEnvironment(
  env: Record<string, string | undefined> = process.env,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] => entry[1] !== undefined && PACKAGE_VARIABLES.test(entry[0]),
    ),
  );
}

import { SERVICES, type ServiceName } from '@wellspring/contract/endpoint';
import { cidrList } from '@wellspring/core/addresses';

/** Every environment variable of the platform: name, default, meaning and parser. */

export interface Variable<T = unknown> {
  name: string;
  /** The default, as shown in the table. */
  fallback: string;
  meaning: string;
  /** Its value is never shown. */
  secret: boolean;
  /** The value of a text; undefined: the variable is not set. @throws Error that names the problem */
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

const integer = <F>(fallback: F, least: number, most: number = Number.MAX_SAFE_INTEGER) =>
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

/** An empty text is a value here: no networks. */
const networks = <F>(fallback: F) => {
  return (value: string | undefined): readonly string[] | F => {
    if (value === undefined) return fallback;
    const cidrs = listOf(value);
    cidrList(cidrs);
    return cidrs;
  };
};

/** `mongodb://user:password@one,two,three/database?…` with the first host only. */
const withOneHost = (value: string) =>
  value.replace(/^((?:mongodb|amqps?):\/\/(?:[^@/?]*@)?[^,@/?]+)(?:,[^,@/?]+)+/, '$1');

const url = (protocols: readonly string[]) =>
  given((value) => {
    const one = withOneHost(value);
    const { protocol } = URL.canParse(one) ? new URL(one) : { protocol: '' };
    if (!protocols.includes(protocol)) throw new Error(`has to be a URL that starts with ${protocols[0]}//`);
    return value;
  }, null);

const bucketUrl = given((value) => {
  const parsed = URL.canParse(value) ? new URL(value) : undefined;
  const { protocol = '', username = '', password = '', pathname = '/' } = parsed ?? {};
  if (!/^https?:$/.test(protocol) || username === '' || password === '' || pathname === '/') {
    throw new Error('has to be the URL of a bucket such as https://key:secret@s3.example.com/bucket');
  }
  return value;
}, null);

const asOrigin = (value: string) => {
  const parsed = URL.canParse(value) ? new URL(value) : undefined;
  if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.pathname !== '/' || parsed.search !== '') {
    throw new Error('has to be an origin such as https://events.example.com');
  }
  return parsed.origin;
};
const origin = given(asOrigin, null);

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

const serviceUrl = (name: ServiceName) =>
  variable(
    `${name.toUpperCase()}_URL`,
    `\`http://${name}:3000\``,
    `Origins of the service ${name} in other processes, for the gateway; several, separated by commas, take turns`,
    given((value): readonly string[] => listOf(value).map(asOrigin), [`http://${name}:3000`]),
  );

export const VARIABLES = {
  host: variable('HOST', '127.0.0.1', 'Address of the public listener', text('127.0.0.1')),
  port: variable('PORT', '3000', 'Port of the public listener', integer(3000, 1, 65_535)),
  publicUrl: variable(
    'PUBLIC_URL',
    'from host and port',
    'Origin under which clients reach the public listener',
    origin,
  ),
  endpointDomain: variable(
    'ENDPOINT_DOMAIN',
    'none',
    'Domain below which every endpoint has its own host: `https://{key}.{domain}`',
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
  amqpUrl: variable(
    'AMQP_URL',
    'none',
    'RabbitMQ, or the nodes of a cluster, `amqp://user:password@host1,host2/vhost`; with the other two: the distributed mode',
    url(['amqp:', 'amqps:']),
    true,
  ),
  redisUrl: variable('REDIS_URL', 'none', 'Redis', url(['redis:', 'rediss:']), true),
  mongodbUrl: variable(
    'MONGODB_URL',
    'none',
    'MongoDB, with the name of the database: `mongodb://host1,host2,host3/name?replicaSet=…`',
    url(['mongodb:', 'mongodb+srv:']),
    true,
  ),
  s3Url: variable(
    'S3_URL',
    'none: in MongoDB',
    'Bucket for files in the distributed mode: `https://key:secret@host/bucket/prefix?region=…`',
    bucketUrl,
    true,
  ),
  services: variable(
    'SERVICES',
    'all',
    'Services of this process, separated by commas; or arguments of `start`',
    serviceNames,
  ),
  secretKeys: variable(
    'SECRET_KEY',
    'generated into the data directory; required when distributed',
    'Root key of encryption at rest and of signatures between services; several, newest first, during a rotation',
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
  memoryMb: variable(
    'MEMORY_MB',
    'of the container or machine',
    'Memory of a runner in MB; idle sources keep their processes in half of it',
    integer(null, 256),
  ),
  minIntervalSeconds: variable(
    'MIN_INTERVAL_SECONDS',
    '15',
    'Minimum interval of a timer, at least 1',
    integer(15, 1),
  ),
  apiRate: variable(
    'API_RATE',
    '100',
    'API requests per second and key, bursts twice that; 0: off',
    integer(100, 0),
  ),
  endpointRate: variable(
    'ENDPOINT_RATE',
    '0',
    'Requests per second and source endpoint, bursts twice that; 0: off',
    integer(0, 0),
  ),
  trustProxy: variable(
    'TRUST_PROXY',
    'none',
    'Networks (CIDRs) whose `x-forwarded-*` headers are trusted',
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
  componentsUrl: serviceUrl('components'),
  sourcesUrl: serviceUrl('sources'),
  subscriptionsUrl: serviceUrl('subscriptions'),
  webhooksUrl: serviceUrl('webhooks'),
  eventsUrl: serviceUrl('events'),
};

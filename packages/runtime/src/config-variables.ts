import type { ServiceName } from '@wellspring/contract/endpoint';
import {
  amqpUrl,
  asOrigin,
  bucketUrl,
  domain,
  given,
  host,
  integer,
  key,
  listOf,
  mailUrl,
  mongodbUrl,
  networks,
  objectStoreUrl,
  oneOf,
  origin,
  origins,
  path,
  redisUrl,
  rootKeys,
  serviceNames,
} from './setting-parsers.ts';

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

const serviceUrl = (name: ServiceName) =>
  variable(
    `${name.toUpperCase()}_URL`,
    `\`http://${name}:3000\``,
    `Origins of the service ${name} in other processes, for the gateway; several, separated by commas, take turns`,
    given(origins, [`http://${name}:3000`]),
  );

export const VARIABLES = {
  host: variable('HOST', '127.0.0.1', 'Address of the public listener', host('127.0.0.1')),
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
  adminHost: variable('ADMIN_HOST', '127.0.0.1', 'Address of the operator listener', host('127.0.0.1')),
  adminPort: variable('ADMIN_PORT', '3001', 'Port of the operator listener', integer(3001, 1, 65_535)),
  adminKey: variable('ADMIN_KEY', 'generated', 'Key of the operator API', key, true),
  apiKey: variable('API_KEY', 'generated', 'Preset API key of the user `admin`', key, true),
  dataDir: variable(
    'DATA_DIR',
    '`.wellspring`',
    'Database, queues, blobs and credentials',
    path('.wellspring'),
  ),
  amqpUrl: variable(
    'AMQP_URL',
    'none',
    'RabbitMQ, or the nodes of a cluster, `amqp://user:password@host1,host2/vhost`; with the other two: the distributed mode',
    amqpUrl,
    true,
  ),
  redisUrl: variable('REDIS_URL', 'none', 'Redis', redisUrl, true),
  mongodbUrl: variable(
    'MONGODB_URL',
    'none',
    'MongoDB, with the name of the database: `mongodb://host1,host2,host3/name?replicaSet=…`',
    mongodbUrl,
    true,
  ),
  s3Url: variable(
    'S3_URL',
    'none: in MongoDB',
    'Bucket for files in the distributed mode: `https://key:secret@host/bucket/prefix?region=…`',
    bucketUrl,
    true,
  ),
  smtpUrl: variable(
    'SMTP_URL',
    'none: it fails',
    'Mail server and sender of `$.send.email`: `smtp://user:password@host:587?from=events@example.com`, or `smtps:`',
    mailUrl,
    true,
  ),
  sendS3Url: variable(
    'SEND_S3_URL',
    'none: it fails',
    'Object store of `$.send.s3`: `https://key:secret@host?region=…` for every bucket of these credentials, or with `/bucket/prefix` for this one',
    objectStoreUrl,
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
  reservedProcessors: variable(
    'RESERVED_PROCESSORS',
    '1',
    'Processors on which no user code runs and no package is installed or compiled, so that busy code does not delay the platform; one is always left for code. 0: code may use all',
    integer(1, 0, 1024),
  ),
  memoryMb: variable(
    'MEMORY_MB',
    'of the container or machine',
    'Memory of a process in MB: half of it for all processes of user code together, idle and busy (when it is used up, idle ones end first, then runs of the owner that uses the most), half for its own heap (at most the limit of Node.js), which is divided among calls, API requests, jobs, deliveries and streams',
    integer(null, 256, 16_777_216),
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
  endpointFilesMb: variable(
    'ENDPOINT_FILES_MB',
    '2048',
    'Files of calls in MB that a process stores within 40 minutes, an owner at most half; then such calls get 503',
    integer(2048, 16, 16_777_216),
  ),
  corsOrigins: variable(
    'CORS_ORIGINS',
    'none',
    'Origins, separated by commas, whose pages may call the API with a key; `*`: all',
    given((value) => listOf(value).map((one) => (one === '*' ? one : asOrigin(one))), []),
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
  retainDeliveryDays: variable(
    'RETAIN_DELIVERY_DAYS',
    '30',
    'Days that deliveries and their attempts are kept, at least 7: longer than the retries take',
    integer(30, 7, 36_500),
  ),
  componentsUrl: serviceUrl('components'),
  sourcesUrl: serviceUrl('sources'),
  subscriptionsUrl: serviceUrl('subscriptions'),
  webhooksUrl: serviceUrl('webhooks'),
  eventsUrl: serviceUrl('events'),
};

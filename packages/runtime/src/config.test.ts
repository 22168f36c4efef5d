import { resolve } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { SERVICES } from '@wellspring/contract/endpoint';
import { ConfigError, configTable, printConfig, readConfig, unknownVariables } from './config.ts';

const read = (env: Record<string, string> = {}, services: string[] = []) =>
  readConfig({ env, services, isTerminal: false });

function faultsOf(env: Record<string, string>, services: string[] = []): readonly string[] {
  try {
    read(env, services);
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
  return [];
}

test('nothing set gives an embedded platform on loopback', () => {
  expect(read()).toEqual({
    mode: 'embedded',
    services: SERVICES,
    host: '127.0.0.1',
    port: 3000,
    publicUrl: 'http://127.0.0.1:3000',
    endpointDomain: null,
    adminHost: '127.0.0.1',
    adminPort: 3001,
    adminKey: null,
    apiKey: null,
    dataDir: resolve('.wellspring'),
    amqpUrl: null,
    redisUrl: null,
    mongodbUrl: null,
    s3Url: null,
    smtpUrl: null,
    sendS3Url: null,
    secretKeys: null,
    allowNetworks: ['127.0.0.0/8', '::1/128'],
    codeAllowNetworks: [],
    isolation: 'auto',
    reservedProcessors: 1,
    memoryMb: null,
    minIntervalSeconds: 15,
    apiRate: 100,
    endpointRate: 0,
    endpointFilesMb: 2048,
    corsOrigins: [],
    trustProxy: [],
    logLevel: 'info',
    logFormat: 'json',
    retainEvents: 10_000,
    retainDays: 7,
    retainDeliveryDays: 30,
    componentsUrl: ['http://components:3000'],
    sourcesUrl: ['http://sources:3000'],
    subscriptionsUrl: ['http://subscriptions:3000'],
    webhooksUrl: ['http://webhooks:3000'],
    eventsUrl: ['http://events:3000'],
  });
});

test('variables override defaults; the public URL follows the listener unless it is set', () => {
  const config = read({
    WELLSPRING_HOST: '0.0.0.0',
    WELLSPRING_PORT: '8080',
    WELLSPRING_ALLOW_NETWORKS: '10.0.0.0/8, fd00::/8',
    WELLSPRING_SECRET_KEY: `${'n'.repeat(32)},${'o'.repeat(32)}`,
    WELLSPRING_LOG_FORMAT: 'pretty',
  });
  expect(config.publicUrl).toBe('http://127.0.0.1:8080');
  expect(config.allowNetworks).toEqual(['10.0.0.0/8', 'fd00::/8']);
  expect(config.secretKeys).toEqual(['n'.repeat(32), 'o'.repeat(32)]);
  expect(config.logFormat).toBe('pretty');
  expect(read({ WELLSPRING_HOST: '::' }).publicUrl).toBe('http://[::1]:3000');
  expect(read({ WELLSPRING_PUBLIC_URL: 'https://x.example/' }).publicUrl).toBe('https://x.example');
});

test('a relative data directory becomes absolute: child processes work in other directories', () => {
  expect(read({ WELLSPRING_DATA_DIR: 'data/x' }).dataDir).toBe(`${process.cwd()}/data/x`);
});

test('an empty variable counts as unset, except for lists of networks', () => {
  expect(read({ WELLSPRING_PORT: '', WELLSPRING_API_KEY: '' })).toMatchObject({ port: 3000, apiKey: null });
  expect(read({ WELLSPRING_ALLOW_NETWORKS: '' }).allowNetworks).toEqual([]);
});

test.each([
  ['WELLSPRING_HOST', 'host:1', 'has to be a host name or an address'],
  ['WELLSPRING_HOST', 'host/path', 'has to be a host name or an address'],
  ['WELLSPRING_PUBLIC_URL', 'https://user:secret@x.example', 'has to be an origin such as'],
  ['WELLSPRING_ENDPOINT_DOMAIN', '-hooks.example.com', 'has to be a domain such as'],
  ['WELLSPRING_ENDPOINT_DOMAIN', '127.0.0.1:3000', 'has to be a domain such as'],
])('%s=%s is refused', (name, value, why) => {
  expect(faultsOf({ [name]: value })).toEqual([expect.stringContaining(`${name} ${why}`)]);
});

test('all faults are reported together, each with the name of its variable', () => {
  const env = {
    WELLSPRING_HOST: 'not a host',
    WELLSPRING_PORT: '70000',
    WELLSPRING_MIN_INTERVAL_SECONDS: '0',
    WELLSPRING_ISOLATION: 'docker',
    WELLSPRING_ALLOW_NETWORKS: '10.0.0.0/8,10/99',
    WELLSPRING_TRUST_PROXY: 'proxy.local',
    WELLSPRING_PUBLIC_URL: 'events.example.com',
    WELLSPRING_API_KEY: 'short',
    WELLSPRING_SECRET_KEY: 'short',
    WELLSPRING_RETAIN_DAYS: '1.5',
    WELLSPRING_SERVICES: 'gateway,databank',
    WELLSPRING_EVENTS_URL: ',',
    WELLSPRING_ENDPOINT_DOMAIN: 'hooks.example.com:99999',
    WELLSPRING_MEMORY_MB: '999999999999999',
    WELLSPRING_ENDPOINT_FILES_MB: '999999999999999',
  };
  const faults = faultsOf(env);
  expect(faults.map((fault) => fault.split(' ')[0]).sort()).toEqual(Object.keys(env).sort());
  expect(faults.join('\n')).not.toContain('short');
});

test('where workflows send mail and files is checked, and not shown', () => {
  const env = {
    WELLSPRING_SMTP_URL: 'smtp://user:pass@mail.example:587?from=events@example.com',
    WELLSPRING_SEND_S3_URL: 'https://key:hidden@s3.example',
  };
  const config = read(env);
  expect([config.smtpUrl, config.sendS3Url]).toEqual(Object.values(env));
  expect(printConfig(config)).not.toMatch(/user:pass|hidden/);
  for (const bad of [
    'mail.example',
    'smtp://mail.example',
    'https://mail.example?from=a@b',
    'smtp://m?from=x',
  ]) {
    expect(faultsOf({ WELLSPRING_SMTP_URL: bad })).toEqual([
      expect.stringMatching(/SMTP_URL has to be a URL/),
    ]);
  }
  for (const bad of ['s3', 'https://s3.example/bucket', 'ftp://a:b@c/d']) {
    expect(faultsOf({ WELLSPRING_SEND_S3_URL: bad })).toEqual([
      expect.stringMatching(/SEND_S3_URL has to be a URL/),
    ]);
  }
});

test.each([
  ['SMTP_URL', (part: string) => `smtp://user:${part}@mail.example?from=a@b.example`],
  ['SEND_S3_URL', (part: string) => `https://key:${part}@s3.example`],
  ['S3_URL', (part: string) => `https://key:secret@s3.example/bucket/${part}`],
])('%s with a %% that is not encoded is refused', (name, url) => {
  for (const part of ['100%', '5%off', '%ff']) {
    expect(faultsOf({ [`WELLSPRING_${name}`]: url(part) })).toContain(
      `WELLSPRING_${name} has a % that does not begin an encoded character: a % itself is written as %25`,
    );
  }
  expect(faultsOf({ [`WELLSPRING_${name}`]: url('100%25') }).join()).not.toContain('%');
});

describe('of the servers of the distributed mode', () => {
  const AMQP = { WELLSPRING_AMQP_URL: 'amqp://broker' };
  const REST = { WELLSPRING_REDIS_URL: 'redis://cache', WELLSPRING_MONGODB_URL: 'mongodb://db' };
  test('some without the others are refused, and the missing ones are named', () => {
    expect(faultsOf(AMQP)).toEqual([expect.stringMatching(/REDIS_URL and WELLSPRING_MONGODB_URL not set/)]);
  });
  const SHARED = { WELLSPRING_SECRET_KEY: 's'.repeat(32), WELLSPRING_PUBLIC_URL: 'https://x.example' };
  test('all make the mode distributed: chosen services, no private networks', () => {
    const config = read({ ...AMQP, ...REST, ...SHARED }, ['runner', 'delivery']);
    expect(config).toMatchObject({
      mode: 'distributed',
      services: ['runner', 'delivery'],
      allowNetworks: [],
    });
  });
  test('RabbitMQ is one node or several', () => {
    for (const url of ['amqp://broker', 'amqps://user:pa%2Css@one:5671,two:5671,three/vhost?heartbeat=9']) {
      const env = { ...AMQP, ...REST, ...SHARED, WELLSPRING_AMQP_URL: url };
      expect(read(env, ['runner']).amqpUrl).toBe(url);
    }
    expect(() => read({ ...REST, ...SHARED, WELLSPRING_AMQP_URL: 'one:5672,two' }, ['runner'])).toThrow(
      'WELLSPRING_AMQP_URL has to be a valid URL that starts with amqp://',
    );
    for (const heartbeat of ['abc', '-1', '65536', '']) {
      expect(faultsOf({ ...REST, WELLSPRING_AMQP_URL: `amqp://broker?heartbeat=${heartbeat}` })).toEqual([
        'WELLSPRING_AMQP_URL has a heartbeat that is not a number of seconds up to 65535',
      ]);
    }
  });
  test('MongoDB is one server, the members of a replica set, or a name', () => {
    const readUrl = (url: string) =>
      read({ ...AMQP, ...REST, ...SHARED, WELLSPRING_MONGODB_URL: url }, ['runner']).mongodbUrl;
    for (const url of [
      'mongodb://db',
      'mongodb://one:27017,two,three:27019/name?replicaSet=rs',
      'mongodb://user:pa%40ss@one,two/name',
      'mongodb+srv://user:password@db.example/name',
    ]) {
      expect(readUrl(url)).toBe(url);
    }
    for (const bad of ['db', 'one:27017,two:27017', 'postgres://one:1,two:2/x']) {
      expect(() => readUrl(bad)).toThrow('WELLSPRING_MONGODB_URL has to be a valid URL');
    }
    for (const bad of ['mongodb://db/a.b', 'mongodb://user:p@ss/word@db/name', 'mongodb://one,two/a b']) {
      expect(() => readUrl(bad)).toThrow(
        'WELLSPRING_MONGODB_URL names a database that MongoDB does not allow',
      );
    }
  });
  test('Redis is one server, perhaps with the number of a database', () => {
    const readUrl = (url: string) =>
      read({ ...AMQP, ...REST, ...SHARED, WELLSPRING_REDIS_URL: url }, ['runner']).redisUrl;
    for (const url of ['redis://cache', 'rediss://user:pa,ss@cache:6380/3']) expect(readUrl(url)).toBe(url);
    expect(() => readUrl('redis://one,two')).toThrow('WELLSPRING_REDIS_URL has to name one host');
    expect(() => readUrl('redis://cache/name')).toThrow('WELLSPRING_REDIS_URL has to end with the number');
  });
  test('files go to a bucket where one is named with its credentials, and only then', () => {
    const S3 = { WELLSPRING_S3_URL: 'https://key:secret@s3.example/bucket?region=eu-west-1' };
    expect(read({ ...AMQP, ...REST, ...SHARED, ...S3 }, ['runner']).s3Url).toBe(S3.WELLSPRING_S3_URL);
    expect(faultsOf(S3)).toEqual(['WELLSPRING_S3_URL is for the distributed mode.']);
    for (const bad of [
      's3',
      'https://s3.example/bucket',
      'https://key:secret@s3.example/',
      'ftp://a:b@c/d',
    ]) {
      expect(faultsOf({ ...AMQP, ...REST, ...SHARED, WELLSPRING_S3_URL: bad }, ['runner'])).toEqual([
        expect.stringMatching(/^WELLSPRING_S3_URL has to be the URL of a bucket/),
      ]);
    }
  });
  test('all need the settings that the processes share', () => {
    const services = (names: string[]) =>
      faultsOf({ ...AMQP, ...REST }, names).map((fault) => fault.split(' ')[0]);
    expect(services(['runner'])).toEqual(['WELLSPRING_SECRET_KEY', 'WELLSPRING_PUBLIC_URL']);
    expect(services(['gateway'])).toEqual(['WELLSPRING_SECRET_KEY', 'WELLSPRING_ADMIN_KEY']);
  });
  test('URLs need a host, and credentials that can be decoded', () => {
    const wrong = {
      WELLSPRING_AMQP_URL: 'amqp://user:50%@rabbit',
      WELLSPRING_REDIS_URL: 'redis://',
      WELLSPRING_MONGODB_URL: 'mongodb:///name',
    };
    expect(faultsOf(wrong)).toEqual([
      expect.stringMatching(/^WELLSPRING_AMQP_URL has a % that/),
      'WELLSPRING_REDIS_URL has to be a URL that names a host',
      'WELLSPRING_MONGODB_URL has to be a URL that names a host',
    ]);
  });
  test('every host of a URL is checked', () => {
    expect(faultsOf({ ...REST, WELLSPRING_AMQP_URL: 'amqp://one,two:99999/vhost' })).toEqual([
      'WELLSPRING_AMQP_URL has to be a valid URL that starts with amqp://',
    ]);
    expect(faultsOf({ ...AMQP, ...REST, WELLSPRING_MONGODB_URL: 'mongodb://one,two:x/name' })).toEqual([
      'WELLSPRING_MONGODB_URL has to be a valid URL that starts with mongodb://',
    ]);
  });
  test('a list of services that names none is refused', () => {
    expect(faultsOf({ ...AMQP, ...REST, WELLSPRING_SERVICES: ',' })[0]).toMatch(
      /^WELLSPRING_SERVICES has to name at least one service/,
    );
  });
  test('services in other processes are found at their configured origins', () => {
    const config = read({ WELLSPRING_EVENTS_URL: 'http://a:1, http://b:2/' });
    expect(config.eventsUrl).toEqual(['http://a:1', 'http://b:2']);
    expect(faultsOf({ WELLSPRING_EVENTS_URL: 'http://a:1/path' })).toEqual([
      expect.stringContaining('WELLSPRING_EVENTS_URL'),
    ]);
  });
});

test('services are named after start or by the environment, and all of them when embedded', () => {
  expect(read({}, ['all']).services).toEqual(SERVICES);
  expect(faultsOf({}, ['runner', 'delivery'])).toEqual([expect.stringContaining('WELLSPRING_SERVICES')]);
  expect(faultsOf({}, ['runnner'])).toEqual([expect.stringContaining('names runnner')]);
});

test('two listeners on one address are refused', () => {
  expect(faultsOf({ WELLSPRING_ADMIN_PORT: '3000' })).toHaveLength(1);
});

test('the printed configuration names every variable and shows no secret', () => {
  const secrets = { WELLSPRING_API_KEY: 'a-very-secret-key-1', WELLSPRING_ADMIN_KEY: 'a-very-secret-key-2' };
  const text = printConfig(read(secrets));
  expect(text.split('\n').map((line) => line.split('=')[0])).toEqual(configTable.map(({ name }) => name));
  expect(text).toContain('WELLSPRING_PORT=3000');
  expect(text).not.toContain('a-very-secret-key');
});

test('unknown variables are named with the nearest known one', () => {
  expect(
    unknownVariables({ WELLSPRING_PORT: '1', PATH: '/', WELLSPRING_ADMIN_PROT: '2', WELLSPRING_XYZ: '' }),
  ).toEqual([
    'WELLSPRING_ADMIN_PROT is not a variable of Wellspring; did you mean WELLSPRING_ADMIN_PORT?',
    'WELLSPRING_XYZ is not a variable of Wellspring.',
  ]);
});

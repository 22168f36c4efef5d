import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { SERVICES, type ServiceName } from '@wellspring/contract/endpoint';
import { cidrList } from '@wellspring/core/addresses';
import { urlHost } from './url-host.ts';

/** Parsers of settings: the value of a text, or the fallback. Each throws an Error that completes `<NAME> …`. */

/** An empty variable counts as unset. */
export const given = <T, F>(parse: (text: string) => T, fallback: F) => {
  return (text: string | undefined): T | F => (text === undefined || text === '' ? fallback : parse(text));
};

/** A name or an address, as a URL may contain it. */
export const host = (fallback: string) =>
  given((value) => {
    // A value with a port makes this URL invalid; one with a path or a user does not.
    if (!URL.canParse(`http://${urlHost(value)}:1`) || /[/?#@]/.test(value))
      throw new Error('has to be a host name or an address');
    return value;
  }, fallback);

/** Made absolute: some child processes have another working directory. */
export const path = (fallback: string) => given((value) => resolve(value), resolve(fallback));

export const integer = <F>(fallback: F, least: number, most: number = Number.MAX_SAFE_INTEGER) =>
  given((value) => {
    const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
    if (!(number >= least && number <= most)) {
      const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
      throw new Error(`has to be an integer ${range}`);
    }
    return number;
  }, fallback);

export const oneOf = <const V extends string, F>(values: readonly V[], fallback: F) =>
  given((value) => {
    const found = values.find((one) => one === value);
    if (found === undefined) throw new Error(`has to be one of ${values.join(', ')}`);
    return found;
  }, fallback);

export const listOf = (value: string) =>
  value
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');

/** An empty text is a value here: no networks. */
export const networks = <F>(fallback: F) => {
  return (value: string | undefined): readonly string[] | F => {
    if (value === undefined) return fallback;
    const cidrs = listOf(value);
    cidrList(cidrs);
    return cidrs;
  };
};

/** One URL per host of `mongodb://user:password@one,two,three/database?…` or of several nodes of RabbitMQ. */
function urlsByHost(value: string): [string, ...string[]] {
  const [, before, first = '', others, after] =
    /^((?:mongodb|amqps?):\/\/(?:[^@/?]*@)?)([^,@/?]+)((?:,[^,@/?]+)+)(.*)$/s.exec(value) ?? [];
  if (others === undefined) return [value];
  return [
    `${before}${first}${after}`,
    ...others
      .slice(1)
      .split(',')
      .map((host) => `${before}${host}${after}`),
  ];
}

const url = (protocols: readonly string[]) =>
  given((value) => {
    for (const one of urlsByHost(value)) {
      const { protocol, hostname } = URL.canParse(one) ? new URL(one) : { protocol: '', hostname: '' };
      if (!protocols.includes(protocol))
        throw new Error(`has to be a valid URL that starts with ${protocols[0]}//`);
      if (hostname === '') throw new Error('has to be a URL that names a host');
      decodable(one);
    }
    return value;
  }, null);

export const amqpUrl = given((value) => {
  const checked = url(['amqp:', 'amqps:'])(value);
  const heartbeat = new URL(urlsByHost(value)[0]).searchParams.get('heartbeat') ?? '0';
  if (!/^\d{1,5}$/.test(heartbeat) || Number(heartbeat) > 65_535)
    throw new Error('has a heartbeat that is not a number of seconds up to 65535');
  return checked;
}, null);

/** The URL, whose credentials and path can be decoded. */
function decodable(value: string): string {
  const { username, password, pathname } = new URL(value);
  try {
    decodeURIComponent(`${username}:${password}${pathname}`);
  } catch {
    throw new Error('has a % that does not begin an encoded character: a % itself is written as %25');
  }
  return value;
}

/** The name of the database is not shown: it may be a part of a password that is not encoded. */
export const mongodbUrl = given((value) => {
  const checked = url(['mongodb:', 'mongodb+srv:'])(value);
  const name = decodeURIComponent(new URL(urlsByHost(value)[0]).pathname.slice(1));
  if (/[/\\. "$*<>:|?]/.test(name)) {
    throw new Error(
      'names a database that MongoDB does not allow (special characters of a password have to be percent-encoded)',
    );
  }
  return checked;
}, null);

export const redisUrl = given((value) => {
  const checked = url(['redis:', 'rediss:'])(value);
  const { hostname, pathname } = new URL(value);
  if (hostname.includes(',')) throw new Error('has to name one host: Redis Cluster is not supported');
  if (!/^\/?\d*$/.test(pathname))
    throw new Error('has to end with the number of a database, such as redis://host/1, or without one');
  return checked;
}, null);

export const bucketUrl = given((value) => {
  const parsed = URL.canParse(value) ? new URL(value) : undefined;
  const { protocol = '', username = '', password = '', pathname = '/' } = parsed ?? {};
  if (!/^https?:$/.test(protocol) || username === '' || password === '' || pathname === '/') {
    throw new Error('has to be the URL of a bucket such as https://key:secret@s3.example.com/bucket');
  }
  return decodable(value);
}, null);

export const asOrigin = (value: string) => {
  const parsed = URL.canParse(value) ? new URL(value) : undefined;
  const { protocol = '', username = '', password = '', pathname = '', search = '' } = parsed ?? {};
  if (
    !parsed ||
    !/^https?:$/.test(protocol) ||
    pathname !== '/' ||
    `${username}${password}${search}` !== ''
  ) {
    throw new Error('has to be an origin such as https://events.example.com');
  }
  return parsed.origin;
};
export const origin = given(asOrigin, null);

export const origins = (value: string): readonly string[] => {
  const list = listOf(value).map(asOrigin);
  if (list.length === 0) throw new Error('has to name at least one origin');
  return list;
};

export const key = given((value) => {
  if (!/^[A-Za-z0-9._~+/-]{16,256}$/.test(value)) {
    throw new Error('has to have 16 to 256 characters out of A-Z a-z 0-9 . _ ~ + / -');
  }
  return value;
}, null);

export const rootKeys = given((value) => {
  const keys = listOf(value);
  if (keys.length === 0 || keys.some((one) => one.length < 32)) {
    throw new Error('has to be one or more keys of at least 32 characters, separated by commas');
  }
  return keys;
}, null);

export const domain = given((value) => {
  const isDomain = /^(?!-)[a-z0-9-]+(?<!-)(\.(?!-)[a-z0-9-]+(?<!-))*(:\d+)?$/i.test(value);
  // Names below an address do not exist.
  if (!isDomain || !URL.canParse(`https://${value}`) || isIP(value.replace(/:\d+$/, '')) !== 0)
    throw new Error('has to be a domain such as hooks.example.com');
  return value.toLowerCase();
}, null);

export const serviceNames = given((value) => {
  const names = listOf(value);
  if (names.length === 0) throw new Error('has to name at least one service, or all');
  const unknown = names.filter((name) => name !== 'all' && !SERVICES.includes(name as ServiceName));
  if (unknown.length > 0) {
    throw new Error(`names ${unknown.join(', ')}; the services are all, ${SERVICES.join(', ')}`);
  }
  return names.includes('all') ? SERVICES : SERVICES.filter((name) => names.includes(name));
}, SERVICES);

/** The sender is part of the URL. */
export const mailUrl = given((value) => {
  const parsed = URL.canParse(value) ? new URL(value) : undefined;
  const from = parsed?.searchParams.get('from') ?? '';
  if (
    !parsed ||
    !/^smtps?:$/.test(parsed.protocol) ||
    parsed.hostname === '' ||
    !/^[^\s@<>]+@[^\s@<>]+$/.test(from)
  ) {
    throw new Error(
      'has to be a URL with a sender such as smtp://user:password@mail.example.com:587?from=events@example.com',
    );
  }
  return decodable(value);
}, null);

/** Like the URL of a bucket, but the bucket may be absent. */
export const objectStoreUrl = given((value) => {
  const { protocol, username, password } = URL.canParse(value) ? new URL(value) : new URL('none:');
  if (!/^https?:$/.test(protocol) || username === '' || password === '') {
    throw new Error('has to be a URL such as https://key:secret@s3.example.com/bucket, or without bucket');
  }
  return decodable(value);
}, null);

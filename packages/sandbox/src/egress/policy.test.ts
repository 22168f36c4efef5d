import { describe, expect, test } from '@jest/globals';
import { createAddressGuard } from '@wellspring/core/addresses';
import fc from 'fast-check';
import { createOwnAddresses } from './platform-addresses.ts';
import { type PlatformAddresses, refusalText, refuseAddress, refuseTarget } from './policy.ts';

const PLATFORM: PlatformAddresses = {
  names: [
    { name: 'events.example.com', below: false },
    { name: 'hooks.example.com', below: true },
  ],
  listenerPorts: [3000, 3001],
  endpoints: [
    { host: 'events.example.com', port: 443 },
    { host: 'mongo.internal', port: 27017 },
    { host: '10.0.0.9', port: 6379 },
    { host: 's3.example.com', port: 443, onlyPrivate: true },
  ],
};
const target = (host: string, port = 443) => refuseTarget({ host, port }, PLATFORM);
const rulesFor = (allowed: readonly string[], isPlatform: (address: string, port: number) => boolean) => ({
  isReachable: createAddressGuard(allowed),
  isPlatform,
});

describe('a name', () => {
  test.each([
    'example.com',
    'events.example.com.evil.com',
    'xevents.example.com',
    's3.example.com',
    '_a-b.xn--bcher-kva.example',
    '1.1.1.1',
    '::1',
  ])('%s is checked by its addresses', (host) => expect(target(host)).toBeUndefined());
  test.each([
    'events.example.com',
    'EVENTS.Example.COM',
    'events.example.com.',
    'hooks.example.com',
    'a.b.hooks.example.com',
  ])('%s belongs to the platform, on every port', (host) => {
    for (const port of [80, 443, 8443]) expect(target(host, port)).toBe('platform');
  });
  test('of a server of the platform is refused for the port of the server', () => {
    expect(target('mongo.internal', 27017)).toBe('platform');
    expect(target('mongo.internal', 80)).toBeUndefined();
  });
  test.each(['127.1', '2130706433', '0x7f.1', '0x7f000001', '0177.0.0.1', '1', '127.0.0.1.', '0x', ''])(
    '%j, which C libraries read as an address, is refused',
    (host) => expect(target(host)).toBe('name'),
  );
  test.each([
    '\\101vents.example.com',
    '\\events.example.com',
    'events.example.com..',
    'a..b',
    'a%b',
    '[::1]',
  ])('%s, of which the C library might read another name, is refused', (host) =>
    expect(target(host)).toBe('name'),
  );
  test('no number in any notation passes as a name', () => {
    const part = fc.oneof(
      fc.nat(2 ** 32 - 1).map(String),
      fc.nat(2 ** 32 - 1).map((n) => `0x${n.toString(16)}`),
      fc.nat(2 ** 32 - 1).map((n) => `0${n.toString(8)}`),
    );
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 4 }), (parts) => {
        const host = parts.join('.');
        // A complete address is checked as an address.
        if (target(host) === undefined) expect(createAddressGuard(['0.0.0.0/0'])(host)).toBe(true);
      }),
    );
  });
});

test.each([25, 465, 587])('port %d of mail servers is refused for names and addresses', (port) => {
  expect(target('example.com', port)).toBe('port');
  expect(target('1.1.1.1', port)).toBe('port');
});

describe('an address', () => {
  const none = () => false;
  test('is refused unless it is public or allowed', () => {
    expect(refuseAddress('1.1.1.1', 80, rulesFor([], none))).toBeUndefined();
    expect(refuseAddress('10.0.0.1', 80, rulesFor([], none))).toBe('address');
    expect(refuseAddress('10.0.0.1', 80, rulesFor(['10.0.0.0/8'], none))).toBeUndefined();
    expect(refuseAddress('::ffff:10.0.0.1', 80, rulesFor([], none))).toBe('address');
    expect(refuseAddress('::ffff:a00:1', 80, rulesFor(['10.0.0.0/8'], none))).toBeUndefined();
    expect(refuseAddress('localhost', 80, rulesFor(['0.0.0.0/0'], none))).toBe('address');
  });

  test('of the platform is refused in every notation, even in an allowed network', () => {
    const hex = fc.constantFrom('::ffff:', '::FFFF:', '0:0:0:0:0:ffff:');
    fc.assert(
      fc.property(hex, fc.ipV4(), fc.nat(65_535), (prefix, address, port) => {
        const rules = rulesFor(['0.0.0.0/0', '::/0'], (one, at) => one === address && at === port);
        expect(refuseAddress(address, port, rules)).toBe('platform');
        expect(refuseAddress(`${prefix}${address}`, port, rules)).toBe('platform');
        const [a, b, c, d] = address.split('.').map(Number) as [number, number, number, number];
        const words = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
        expect(refuseAddress(`${prefix}${words}`, port, rules)).toBe('platform');
      }),
    );
  });

  test('is dialled only if it is reachable and not of the platform', () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (address) => {
        const isReachable = createAddressGuard([]);
        const refused = refuseAddress(address, 80, rulesFor([], none));
        expect(refused === undefined).toBe(isReachable(address));
      }),
    );
  });
});

describe('addresses of the platform', () => {
  const resolved: Record<string, string[]> = {
    'events.example.com': ['203.0.113.7'],
    'mongo.internal': ['10.0.0.5', 'fd00::5'],
    's3.example.com': ['52.1.1.1', '10.9.9.9'],
  };
  const own = async (platform = PLATFORM) => {
    const addresses = createOwnAddresses(platform, async (host) => {
      const found = resolved[host];
      if (!found) throw new Error(`getaddrinfo ENOTFOUND ${host}`);
      return found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    });
    await addresses.ready;
    addresses.close();
    return addresses;
  };

  test('are the addresses and ports of its names and servers', async () => {
    const { isPlatform } = await own();
    expect(isPlatform('203.0.113.7', 443)).toBe(true);
    expect(isPlatform('203.0.113.7', 8443)).toBe(false);
    expect(isPlatform('10.0.0.5', 27017)).toBe(true);
    expect(isPlatform('fd00::5', 27017)).toBe(true);
    expect(isPlatform('10.0.0.9', 6379)).toBe(true);
    expect(isPlatform('10.0.0.9', 80)).toBe(false);
  });
  test('include an object store only if its address is private', async () => {
    const { isPlatform } = await own();
    expect(isPlatform('10.9.9.9', 443)).toBe(true);
    expect(isPlatform('52.1.1.1', 443)).toBe(false);
  });
  test.each(['127.0.0.1', '127.5.5.5', '0.0.0.0', '::1', '::'])(
    'include its listeners at %s',
    async (address) => {
      const { isPlatform } = await own();
      expect([3000, 3001, 3002].map((port) => isPlatform(address, port))).toEqual([true, true, false]);
    },
  );
  test('include a private port at every private address', async () => {
    const { isPlatform } = await own({ ...PLATFORM, privatePorts: [3001] });
    for (const address of ['10.0.0.77', 'fd00::77']) {
      expect([3001, 3002].map((port) => isPlatform(address, port))).toEqual([true, false]);
    }
    expect(isPlatform('1.1.1.1', 3001)).toBe(false);
  });
  test('include a server on this machine at each address of the machine', async () => {
    const endpoints = [{ host: '127.0.0.1', port: 5672 }];
    const { isPlatform } = await own({ names: [], listenerPorts: [], endpoints });
    expect(isPlatform('127.0.0.2', 5672)).toBe(true);
    expect(isPlatform('::1', 5672)).toBe(true);
  });
  test('are in force even if other names do not resolve', async () => {
    const endpoints = [...PLATFORM.endpoints, { host: 'gone.internal', port: 1 }];
    const { isPlatform } = await own({ ...PLATFORM, endpoints });
    expect(isPlatform('10.0.0.5', 27017)).toBe(true);
  });
});

test('a refusal names the setting that would allow the address', () => {
  expect(refusalText('address', { host: '::1', port: 80 })).toBe(
    'connect EACCES [::1]:80: ::1 is not a public address; WELLSPRING_CODE_ALLOW_NETWORKS, or code_allow_networks of the organization, names the private networks that code may reach',
  );
  expect(refusalText('platform', { host: 'a', port: 1 })).not.toContain('WELLSPRING');
});

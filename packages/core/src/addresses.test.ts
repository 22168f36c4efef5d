import { describe, expect, test } from '@jest/globals';
import { cidrList, createAddressGuard } from './addresses.ts';

const PUBLIC = [
  '1.1.1.1',
  '8.8.8.8',
  '9.255.255.255',
  '11.0.0.0',
  '93.184.216.34',
  '100.63.255.255',
  '100.128.0.0',
  '126.255.255.255',
  '128.0.0.0',
  '168.63.129.15',
  '168.63.129.17',
  '169.253.255.255',
  '169.255.0.0',
  '172.15.255.255',
  '172.32.0.0',
  '192.0.1.0',
  '192.0.3.0',
  '192.88.98.255',
  '192.167.255.255',
  '192.169.0.0',
  '198.17.255.255',
  '198.20.0.0',
  '198.51.99.255',
  '203.0.112.255',
  '203.0.114.0',
  '223.255.255.255',
  '2606:4700:4700::1111',
  '2a00:1450:4001:82b::200e',
  '2001:4860:4860::8888',
  '2003::1',
  '2001:200::1',
  '::ffff:8.8.8.8',
  '::ffff:808:808',
  '0:0:0:0:0:ffff:0101:0101',
];

const REFUSED = [
  // This host, and its own networks.
  '0.0.0.0',
  '0.0.0.1',
  '0.255.255.255',
  '127.0.0.1',
  '127.0.0.2',
  '127.1.2.3',
  '127.255.255.255',
  '10.0.0.0',
  '10.0.0.1',
  '10.255.255.255',
  '172.16.0.0',
  '172.17.0.1',
  '172.31.255.255',
  '192.168.0.0',
  '192.168.1.1',
  '192.168.255.255',
  // Carrier-grade NAT.
  '100.64.0.0',
  '100.100.100.200',
  '100.127.255.255',
  // Link-local and metadata.
  '169.254.0.1',
  '169.254.169.253',
  '169.254.169.254',
  '169.254.170.2',
  '169.254.255.255',
  '168.63.129.16',
  '192.0.0.1',
  '192.0.0.170',
  '192.0.0.192',
  // Documentation, benchmarks, relays, multicast, reserved, broadcast.
  '192.0.2.1',
  '198.51.100.1',
  '203.0.113.1',
  '198.18.0.1',
  '198.19.255.255',
  '192.88.99.1',
  '224.0.0.1',
  '239.255.255.250',
  '240.0.0.1',
  '255.255.255.254',
  '255.255.255.255',
  // IPv6: unspecified, loopback, IPv4-compatible.
  '::',
  '::1',
  '0:0:0:0:0:0:0:1',
  '::0.0.0.1',
  '::127.0.0.1',
  '::7f00:1',
  '::10.0.0.1',
  '::8.8.8.8',
  // IPv4-mapped, in all notations.
  '::ffff:127.0.0.1',
  '::ffff:7f00:1',
  '::FFFF:7F00:0001',
  '0:0:0:0:0:ffff:127.0.0.1',
  '0000:0000:0000:0000:0000:ffff:7f00:0001',
  '::ffff:10.1.2.3',
  '::ffff:a01:203',
  '::ffff:169.254.169.254',
  '::ffff:a9fe:a9fe',
  '::ffff:192.168.0.1',
  '::ffff:0.0.0.0',
  '::ffff:255.255.255.255',
  '::ffff:100.64.0.1',
  // IPv4 inside IPv6: NAT64, local NAT64, 6to4, Teredo.
  '64:ff9b::127.0.0.1',
  '64:ff9b::7f00:1',
  '64:ff9b::a9fe:a9fe',
  '64:ff9b::8.8.8.8',
  '64:ff9b:1::1',
  '::ffff:0:127.0.0.1',
  '::ffff:0:a9fe:a9fe',
  '64:ff9b:1:ffff::10.0.0.1',
  '2002:7f00:1::',
  '2002:7f00:0001::1',
  '2002:a9fe:a9fe::1',
  '2002:c0a8:101::1',
  '2002:0a00:0001::',
  '2001::1',
  '2001:0:7f00:1::',
  '2001:10::1',
  '2001:20::1',
  '2001:1ff:ffff::1',
  // Unique local, link-local, site-local, multicast, discard, documentation.
  'fc00::1',
  'fd00::1',
  'fd00:ec2::254',
  'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff',
  'fe80::1',
  'fe80::1%eth0',
  'febf::1',
  'fec0::1',
  'feff::1',
  'ff02::1',
  'ff0e::1',
  '100::1',
  '2001:db8::1',
  '3fff::1',
  '5f00::1',
  // No addresses at all: never dialled as literals.
  '',
  'localhost',
  'example.com',
  '127.1',
  '0x7f.0.0.1',
  '0177.0.0.1',
  '2130706433',
  '127.0.0.1 ',
  '[::1]',
  '1.1.1.1/8',
  '256.1.1.1',
  '::g',
];

const isReachable = createAddressGuard([]);

test.each(PUBLIC)('%s is reached', (address) => expect(isReachable(address)).toBe(true));
test.each(REFUSED)('%j is refused', (address) => expect(isReachable(address)).toBe(false));

describe('networks that are allowed', () => {
  const loopback = createAddressGuard(['127.0.0.0/8', '::1']);
  test.each(['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1'])('%s is reached', (address) =>
    expect(loopback(address)).toBe(true),
  );
  test.each(['10.0.0.1', '169.254.169.254', '::2', '64:ff9b::7f00:1', 'fe80::1'])(
    'they open no other: %s',
    (address) => expect(loopback(address)).toBe(false),
  );
  test('public addresses stay reachable', () => expect(loopback('8.8.8.8')).toBe(true));
});

describe('a list of networks', () => {
  test.each(['10.0.0.0/8', '10.1.2.3', 'fd00::/8', '::1/128', '0.0.0.0/0'])('%s is one', (cidr) =>
    expect(() => cidrList([cidr])).not.toThrow(),
  );
  test.each([
    '10.0.0.0/33',
    '::/129',
    '10.0.0/8',
    'local',
    '',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    'fe80::1%a/64',
    '1.1.1.1/-1',
  ])('%j is malformed, and the error names it', (cidr) => expect(() => cidrList([cidr])).toThrow(cidr));
});

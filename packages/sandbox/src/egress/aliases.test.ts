import dns from 'node:dns';
import { describe, expect, test } from '@jest/globals';
import type { Answer } from 'dns-packet';
import { fromZone, type Reply, startDnsServer } from './dns/dns-server.fixture.ts';
import { RECORD_TYPES } from './dns/records.ts';
import { createSystemNames } from './names.ts';
import { NO_PLATFORM, openRelay } from './relay.fixture.ts';

const SECRET: Answer[] = [
  { name: 'db.corp.local', type: 'CAA', data: { flags: 0, tag: 'issue', value: 'secret.example' } },
  { name: 'db.corp.local', type: 'MX', data: { exchange: 'secret.example', preference: 1 } },
  {
    name: 'db.corp.local',
    type: 'NAPTR',
    data: { order: 1, preference: 1, flags: '', services: '', regexp: '', replacement: 'secret.example' },
  },
  { name: 'db.corp.local', type: 'NS', data: 'secret.example' },
  { name: 'db.corp.local', type: 'PTR', data: 'secret.example' },
  { name: 'db.corp.local', type: 'SOA', data: { mname: 'secret.example', rname: 'secret.example' } },
  { name: 'db.corp.local', type: 'SRV', data: { target: 'secret.example', port: 1 } },
  { name: 'db.corp.local', type: 'TXT', data: 'secret' },
];
const alias = (name: string, data: string): Answer => ({ name, type: 'CNAME', data });
const ZONE: Answer[] = [
  ...SECRET,
  alias('one.attacker.example', 'db.corp.local'),
  alias('two.attacker.example', 'one.attacker.example'),
  alias('missing.attacker.example', 'missing.corp.local'),
  alias('server.attacker.example', '_mongodb._tcp.mongo.example'),
  { name: '_mongodb._tcp.mongo.example', type: 'TXT', data: 'secret' },
  alias('docs.example', 'cdn.example'),
  { name: 'cdn.example', type: 'TXT', data: 'public' },
  alias('8.8.8.8.in-addr.arpa', '8.0/26.8.8.8.in-addr.arpa'),
  { name: '8.0/26.8.8.8.in-addr.arpa', type: 'PTR', data: 'dns.example' },
];

async function open(answer: Parameters<typeof startDnsServer>[0], allowNetworks: string[] = []) {
  const server = await startDnsServer(answer);
  const relay = await openRelay({
    allowNetworks,
    names: { ...createSystemNames(() => [server.address]), searchDomains: [] },
    platform: { ...NO_PLATFORM, endpoints: [{ host: 'mongo.example', port: 27017 }] },
  });
  const client = await relay.client('a');
  return {
    server,
    async outcome(resolve: string, type: string) {
      const given = await client.ask({ resolve, type });
      return 'failed' in given ? given.failed.code : 'records' in given && given.records;
    },
    async [Symbol.asyncDispose]() {
      await relay[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

describe('records of a public name that is an alias', () => {
  test.each(RECORD_TYPES.filter((type) => type !== 'CNAME'))(
    'of a private name are not disclosed: %s',
    async (type) => {
      await using relay = await open(fromZone(ZONE));
      for (const name of ['one.attacker.example', 'two.attacker.example']) {
        expect(await relay.outcome(name, type)).toBe('EACCES');
        // Control: the resolver returns them.
        const resolver = new dns.promises.Resolver();
        resolver.setServers([relay.server.address]);
        expect(JSON.stringify(await resolver.resolve(name, type))).toContain('secret');
      }
    },
  );

  test('tell neither whether the private name exists nor the records of a server of the platform', async () => {
    await using relay = await open(fromZone(ZONE));
    expect(await relay.outcome('missing.attacker.example', 'TXT')).toBe('EACCES');
    expect(await relay.outcome('server.attacker.example', 'TXT')).toBe('EACCES');
    expect(await relay.outcome('missing.example', 'TXT')).toBe('ENOTFOUND');
  });

  test('are disclosed if all of its names are public, or the code may reach a private network', async () => {
    await using relay = await open(fromZone(ZONE));
    expect(await relay.outcome('docs.example', 'TXT')).toEqual([['public']]);
    expect(await relay.outcome('8.8.8.8.in-addr.arpa', 'PTR')).toEqual(['dns.example']);
    await using allowed = await open(fromZone(ZONE), ['10.0.0.0/8']);
    expect(await allowed.outcome('two.attacker.example', 'TXT')).toEqual([['secret']]);
    expect(await allowed.outcome('server.attacker.example', 'TXT')).toBe('EACCES');
  });

  test('are not disclosed if the alias appears with the question for records only', async () => {
    await using relay = await open(
      ({ name, type }): Reply => (type === 'CNAME' ? {} : fromZone(ZONE)({ name, type })),
    );
    expect(await relay.outcome('one.attacker.example', 'CNAME')).toBe('ENODATA');
    expect(await relay.outcome('one.attacker.example', 'TXT')).toBe('EACCES');
  });

  test.each<[string, Answer[]]>([
    ['that does not lead to the private name', [alias('one.attacker.example', 'cdn.example')]],
    ['of another name', [alias('other.example', 'db.corp.local')]],
    ['of itself', [alias('one.attacker.example', 'a.example'), alias('a.example', 'one.attacker.example')]],
    ['that is missing', []],
  ])('are not disclosed beside an alias %s', async (_, aliases) => {
    await using relay = await open(() => ({ answers: [...aliases, ...SECRET] }));
    expect(await relay.outcome('one.attacker.example', 'TXT')).toBe('ENODATA');
  });
});

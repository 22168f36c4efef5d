import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { type Names, searchDomainsOf } from './names.ts';
import { type Client, NO_PLATFORM, openRelay } from './relay.fixture.ts';

/** A resolver that knows every name, and records what it was asked. */
function allKnowing(answer: (host: string, type: string) => unknown = () => ['public.example']) {
  const asked: string[] = [];
  const names: Names = {
    searchDomains: ['apps.svc.corp.example', 'corp.example.'],
    lookup: async () => [{ address: '1.1.1.1', family: 4 }],
    async records(host, type) {
      asked.push(host);
      return { aliases: [], records: await answer(host, type) };
    },
  };
  return { asked, names };
}

const PRIVATE = [
  '_amqp._tcp.rabbitmq.wellspring.svc.cluster.local',
  'CLUSTER.LOCAL.',
  'cluster.loca\\108',
  'cluster.local..',
  'rabbitmq',
  'printer.lan',
  'router.home.arpa',
  'vault.service.consul',
  'node.region.compute.internal',
  'git.corp.example',
  'corp.example',
  '7.0.96.10.in-addr.arpa',
  '10.in-addr.arpa',
  `1.${'0.'.repeat(29)}d.f.ip6.arpa`,
  '7.0/26.0.96.10.in-addr.arpa',
  '0/26.8.8.in-addr.arpa',
];
const PUBLIC = [
  'example.com',
  '_imaps._tcp.example.com',
  'mylocal.example',
  'notcorp.example',
  '8.8.8.8.in-addr.arpa',
  '8.0/26.8.8.8.in-addr.arpa',
  `8.8.8.8.${'0.'.repeat(20)}0.6.8.4.1.0.0.2.ip6.arpa`,
];

const outcomes = async (client: Client, names: readonly string[], type = 'SRV') => {
  const answers = await Promise.all(names.map((resolve) => client.ask({ resolve, type })));
  return answers.map((answer) =>
    'failed' in answer ? answer.failed.code : 'records' in answer && 'records',
  );
};

describe('records of names', () => {
  test('of private networks and of private addresses are not disclosed, of others are', async () => {
    const { asked, names } = allKnowing();
    await using relay = await openRelay({ allowNetworks: [], names });
    const client = await relay.client('a');
    expect(await outcomes(client, PRIVATE)).toEqual(PRIVATE.map(() => 'EACCES'));
    expect(asked).toEqual([]);
    expect(await outcomes(client, PUBLIC)).toEqual(PUBLIC.map(() => 'records'));
    expect(asked).toEqual(PUBLIC);
    const answer = await client.ask({ resolve: 'rabbitmq', type: 'SRV' });
    expect(answer).toMatchObject({
      failed: {
        code: 'EACCES',
        syscall: 'querySrv',
        hostname: 'rabbitmq',
        message: expect.stringContaining('WELLSPRING_CODE_ALLOW_NETWORKS'),
      },
    });
  });

  test('of private networks are disclosed to code that may reach one', async () => {
    const { names } = allKnowing();
    await using relay = await openRelay({ allowNetworks: [], names });
    const [one, two] = [await relay.client('one', 'o_1'), await relay.client('two', 'o_2')];
    relay.relay.order({ type: 'owner', owner: 'o_1', networks: ['10.0.0.0/8'] });
    const name = ['db.cluster.local'];
    expect([await outcomes(one, name), await outcomes(two, name)]).toEqual([['records'], ['EACCES']]);
    await using open = await openRelay({ allowNetworks: ['10.0.0.0/8'], names });
    expect(await outcomes(await open.client('a'), name)).toEqual(['records']);
  });

  test.each([
    ['CNAME', ['db.cluster.local']],
    ['SRV', [{ name: 'db.cluster.local', port: 1, priority: 0, weight: 0 }]],
    ['MX', [{ exchange: 'mail.corp.example', priority: 1 }]],
    ['SOA', { nsname: 'ns.lan', hostmaster: 'root.lan' }],
  ])('of type %s with names of private networks are not disclosed', async (type, records) => {
    const { asked, names } = allKnowing(() => records);
    await using relay = await openRelay({ allowNetworks: [], names });
    expect(await outcomes(await relay.client('a'), ['alias.example'], type)).toEqual(['EACCES']);
    expect(asked).toEqual(['alias.example']);
  });

  test.each([
    ['TXT', [['v=spf1 -all']]],
    ['MX', [{ exchange: '', priority: 0 }]],
    ['NAPTR', [{ flags: 's', service: 'SIP', regexp: '', replacement: 'sip.example.com', order: 1 }]],
  ])('of type %s without private names are disclosed', async (type, records) => {
    const { names } = allKnowing(() => records);
    await using relay = await openRelay({ allowNetworks: [], names });
    const client = await relay.client('a');
    expect(await client.ask({ resolve: 'example.com', type })).toMatchObject({ records });
  });

  test('of the names of the platform and of its servers are not disclosed', async () => {
    const { names } = allKnowing();
    await using relay = await openRelay({
      names,
      platform: {
        ...NO_PLATFORM,
        names: [{ name: 'hooks.example.org', below: true }],
        endpoints: [{ host: 'cluster.mongo.example.org', port: 27017 }],
      },
    });
    const own = ['hooks.example.org', 'a.hooks.example.org', '_mongodb._tcp.cluster.mongo.example.org'];
    const client = await relay.client('a');
    expect(await outcomes(client, own)).toEqual(own.map(() => 'EACCES'));
    expect(await outcomes(client, ['example.org'])).toEqual(['records']);
  });

  test('take a permit of their owner, so that a slow name server delays only this owner', async () => {
    let pending = 0;
    const { names } = allKnowing((host) => {
      if (host === 'fast.example') return [];
      pending += 1;
      return new Promise(() => {});
    });
    await using relay = await openRelay({ names });
    const attacker = await relay.client('a', 'attacker');
    const other = await relay.client('b', 'other');
    for (let n = 0; n < 100; n += 1) void attacker.ask({ resolve: `n${n}.slow.example`, type: 'TXT' });
    await eventually(() => pending >= 10);
    expect(await outcomes(other, ['fast.example'])).toEqual(['records']);
    expect(pending).toBeLessThan(32);
  });
});

test('the domains that the resolver searches are read from resolv.conf', () => {
  const text =
    '# search commented.example\nnameserver 10.0.0.1\nsearch a.example  b.example\ndomain\tc.example\n';
  expect(searchDomainsOf(text)).toEqual(['a.example', 'b.example', 'c.example']);
  expect(searchDomainsOf('nameserver 10.0.0.1\n')).toEqual([]);
});

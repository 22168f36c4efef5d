import dns from 'node:dns';
import { describe, expect, test } from '@jest/globals';
import { freePort } from '@wellspring/testing/free-port';
import type { Answer } from 'dns-packet';
import { createSystemNames } from '../names.ts';
import { fromZone, startDnsServer } from './dns-server.fixture.ts';
import { RECORD_TYPES } from './records.ts';

const name = 'all.example';
const ZONE: Answer[] = [
  { name, type: 'CAA', data: { flags: 128, tag: 'issue', value: 'ca.example; account=1' } },
  { name: 'alias.example', type: 'CNAME', data: name },
  { name, type: 'MX', data: { exchange: 'mail.example', preference: 10 } },
  { name, type: 'MX', data: { exchange: '.', preference: 0 } },
  {
    name,
    type: 'NAPTR',
    data: { order: 1, preference: 2, flags: 's', services: 'SIP', regexp: '', replacement: 'sip.example' },
  },
  { name, type: 'NS', data: 'ns1.example' },
  { name, type: 'NS', data: 'ns2.example' },
  { name, type: 'PTR', data: 'pointer.example' },
  {
    name,
    type: 'SOA',
    data: {
      mname: 'ns1.example',
      rname: 'host\\.master.example',
      serial: 2_147_483_649,
      refresh: 1,
      retry: 2,
      expire: 3,
      minimum: 4,
    },
  },
  { name, type: 'SRV', data: { target: 'srv.example', port: 5060, priority: 1, weight: 2 } },
  { name, type: 'TXT', data: ['one ', Buffer.from([0xe9, 0, 0xff])] },
  { name, type: 'TXT', data: '' },
];

/** No test waits for their end. */
const TIMEOUTS_MS = [20_000, 20_000];

const recordsOf = (servers: string[], host: string, type: string) =>
  createSystemNames(() => servers, TIMEOUTS_MS).records(host, type);

/** The resolver of Node.js. */
function resolverOf(server: string): dns.promises.Resolver {
  const resolver = new dns.promises.Resolver({ timeout: TIMEOUTS_MS[0]!, tries: 1 });
  resolver.setServers([server]);
  return resolver;
}

describe('records', () => {
  test.each(RECORD_TYPES)('of type %s have the format of dns.resolve, also by an alias', async (type) => {
    await using server = await startDnsServer(fromZone(ZONE));
    const host = type === 'CNAME' ? 'alias.example' : name;
    const records = await resolverOf(server.address).resolve(host, type);
    expect(await recordsOf([server.address], `${host.toUpperCase()}.`, type)).toEqual({
      aliases: [],
      records,
    });
    if (type === 'CNAME') return;
    expect(await recordsOf([server.address], 'alias.example', type)).toEqual({ aliases: [name], records });
  });

  test('that do not exist have the code of dns.resolve', async () => {
    const zone: Answer[] = [{ name, type: 'NS', data: 'ns1.example' }];
    await using server = await startDnsServer(fromZone(zone));
    for (const host of [name, 'missing.example']) {
      const { code } = await resolverOf(server.address)
        .resolveTxt(host)
        .catch((error) => error);
      expect(await recordsOf([server.address], host, 'TXT')).toEqual({
        aliases: [],
        records: [],
        missing: code,
      });
    }
  });

  test('that do not fit into a datagram are asked for over TCP', async () => {
    const data = Array.from({ length: 60 }, (_, n) => `${n} `.padEnd(250, 'x'));
    await using server = await startDnsServer(fromZone([{ name, type: 'TXT', data }]));
    expect(await recordsOf([server.address], name, 'TXT')).toEqual({
      aliases: [],
      records: [data.map(String)],
    });
    expect(server.asked).toEqual(['udp', 'tcp']);
  });

  test('come from the next server if one is down or cannot answer', async () => {
    const SERVFAIL = 2;
    await using failing = await startDnsServer(() => ({ flags: SERVFAIL }));
    await using server = await startDnsServer(fromZone(ZONE));
    const servers = [`127.0.0.1:${await freePort()}`, failing.address];
    const found = await recordsOf([...servers, server.address], name, 'NS');
    expect(found.records).toEqual(['ns1.example', 'ns2.example']);
    await expect(recordsOf(servers, name, 'NS')).rejects.toMatchObject({
      wire: {
        code: 'ESERVFAIL',
        syscall: 'queryNs',
        hostname: name,
        message: `queryNs ESERVFAIL ${name}`,
      },
    });
  });

  test('of messages that do not answer the question are not taken', async () => {
    const answers: Answer[] = [{ name, type: 'NS', data: 'forged.example' }];
    const questions = [{ name: 'other.example', type: 'NS' as const }];
    await using server = await startDnsServer((question) => ({
      ...fromZone(ZONE)(question),
      forged: (id) => [
        { answers, questions },
        { answers, questions: [] },
        { answers, type: 'query' },
        { answers, id: id ^ 1 },
      ],
    }));
    expect(await recordsOf([server.address], name, 'NS')).toMatchObject({
      records: ['ns1.example', 'ns2.example'],
    });
  });

  test.each([`${'x'.repeat(64)}.example`, `${'x.'.repeat(126)}xx`, 'a..example', ''])(
    'of the invalid name %p are not asked for',
    async (host) => {
      await using server = await startDnsServer(fromZone(ZONE));
      await expect(recordsOf([server.address], host, 'TXT')).rejects.toMatchObject({
        wire: { code: 'EBADNAME' },
      });
      expect(server.asked).toEqual([]);
    },
  );
});

import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { forSuite } from '@wellspring/testing/lifetimes';
import { openSandbox, TIERS, values } from '../sandbox.fixture.ts';
import { echo, isReached, serve } from './relay.fixture.ts';

/** Addresses in several notations; only public addresses are allowed. */
const REFUSED = [
  'localhost',
  '127.0.0.1',
  '127.1',
  '2130706433',
  '0x7f.1',
  '0177.0.0.1',
  '0.0.0.0',
  '10.1.2.3',
  '172.16.0.1',
  '192.168.1.1',
  '100.64.0.1',
  '100.100.100.200',
  '169.254.169.254',
  '168.63.129.16',
  '::',
  '::1',
  '::ffff:127.0.0.1',
  '::ffff:7f00:1',
  '::127.0.0.1',
  '64:ff9b::7f00:1',
  '64:ff9b::a9fe:a9fe',
  '2002:7f00:1::',
  'fd00:ec2::254',
  'fe80::1',
  'ff02::1',
];

const DIAL = `return Promise.all(event.hosts.map((host) => new Promise((resolve) => {
  net.connect({ host, port: event.port }, () => resolve('connected')).on('error', ({ code }) => resolve(code));
})))`;

describe.each(TIERS)('code in tier %s', (tier) => {
  const sandbox = forSuite(() => openSandbox(tier));

  test('reaches no address that is not public, in any notation', async () => {
    await using canary = await serve(echo);
    const outcome = await sandbox.run(DIAL, { event: { hosts: REFUSED, port: canary.port } });
    expect(values(outcome)).toEqual([REFUSED.map(() => 'EACCES')]);
    expect(canary.connections).toHaveLength(0);
    await isReached(canary);
  });

  test('gets an error that names the setting which would allow the address', async () => {
    const outcome = await sandbox.run(`
      const viaNet = await new Promise((resolve) => net.connect(9, '127.0.0.1').on('error', resolve));
      const viaHttp = await new Promise((resolve) => http.get('http://localhost:8080').on('error', resolve));
      const viaFetch = await fetch('http://[::1]:8080').catch(({ cause }) => cause);
      const { code, syscall, address, port, errno, message } = viaNet;
      return [{ code, syscall, address, port, errno, message }, viaHttp.code, viaFetch.code, viaFetch.message]`);
    const [[first, viaHttp, viaFetch, text]] = values(outcome) as [unknown[]];
    expect(first).toEqual({
      code: 'EACCES',
      syscall: 'connect',
      address: '127.0.0.1',
      port: 9,
      errno: -13,
      message: expect.stringMatching(/127\.0\.0\.1 is not a public address; WELLSPRING_CODE_ALLOW_NETWORKS/),
    });
    expect([viaHttp, viaFetch]).toEqual(['EACCES', 'EACCES']);
    expect(text).toContain('WELLSPRING_CODE_ALLOW_NETWORKS');
  });

  test('can neither use mail servers, unix sockets or UDP nor listen', async () => {
    const outcome = await sandbox.run(`
      const dgram = await import('node:dgram'); const dns = await import('node:dns');
      const codes = [];
      const attempt = (act) => { try { act(); codes.push('done') } catch ({ code }) { codes.push(code) } };
      for (const port of [25, 465, 587])
        codes.push(await new Promise((resolve) => net.connect(port, '1.1.1.1').on('error', ({ code }) => resolve(code))));
      codes.push(await new Promise((resolve) => net.connect('/var/run/docker.sock').on('error', ({ code }) => resolve(code))));
      attempt(() => dgram.createSocket('udp4'));
      attempt(() => net.createServer().listen(0));
      attempt(() => http.createServer().listen(0));
      attempt(() => dns.setServers(['127.0.0.1']));
      return codes`);
    expect(values(outcome)).toEqual([Array.from({ length: 8 }, () => 'EACCES')]);
  });

  test('never reaches the platform, but other servers in its allowed network', async () => {
    await using own = await serve(echo);
    await using broker = await serve(echo);
    await using other = await serve(echo);
    await using open = await openSandbox(tier, {
      codeAllowNetworks: ['0.0.0.0/0', '::/0'],
      platform: {
        names: [{ name: 'events.example.com', below: false }],
        listenerPorts: [own.port],
        endpoints: [{ host: 'localhost', port: broker.port }],
      },
    });
    const hosts = [
      '127.0.0.1',
      '127.0.0.2',
      '0.0.0.0',
      '::1',
      '::',
      '::ffff:127.0.0.1',
      'localhost',
      'events.example.com',
    ];
    for (const { port } of [own, broker]) {
      const outcome = await open.run(DIAL, { event: { hosts, port } });
      expect(values(outcome)).toEqual([hosts.map(() => 'EACCES')]);
    }
    expect(own.connections.length + broker.connections.length).toBe(0);
    expect(values(await open.run(DIAL, { event: { hosts: ['127.0.0.1'], port: other.port } }))).toEqual([
      ['connected'],
    ]);
    for (const server of [own, broker]) await isReached(server);
  });

  test('reaches the networks of its organization by the first connection after they were allowed', async () => {
    await using server = await serve(echo);
    const dial = async (owner: string, allowNetworks: string[]) =>
      values(
        await sandbox.run(DIAL, {
          event: { hosts: ['127.0.0.1'], port: server.port },
          process: `${owner}/1`,
          owner: { id: owner, allowNetworks },
        }),
      )[0];
    expect(await dial('o_1', [])).toEqual(['EACCES']);
    expect(await dial('o_1', ['127.0.0.0/8'])).toEqual(['connected']);
    expect(await dial('o_2', [])).toEqual(['EACCES']);
    expect(await dial('o_1', [])).toEqual(['EACCES']);
    // Also during a run.
    const running = sandbox.run(
      `for (;;) {
         const said = await new Promise((resolve) => net.connect(event.port, '127.0.0.1', () => resolve('connected'))
           .on('error', ({ code }) => resolve(code)));
         if (said !== 'EACCES') return said;
         console.log(said);
         await new Promise((resolve) => setTimeout(resolve, 50));
       }`,
      { event: { port: server.port }, process: 'o_1/1', owner: { id: 'o_1', allowNetworks: [] } },
    );
    await eventually(() => sandbox.executor.stats().busy === 1);
    sandbox.executor.allowNetworks({ id: 'o_1', allowNetworks: ['127.0.0.1'] });
    expect(values(await running)).toEqual(['connected']);
  });
});

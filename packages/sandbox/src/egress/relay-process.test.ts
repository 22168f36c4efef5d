import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, test } from '@jest/globals';
import { type Log, silentLog } from '@wellspring/core/log';
import { type Metrics, noMetrics } from '@wellspring/core/metrics';
import { eventually } from '@wellspring/testing/eventually';
import { forSuite } from '@wellspring/testing/lifetimes';
import { descendants, isAlive, uidsOf } from '../processes.fixture.ts';
import { openSandbox, TIERS, values } from '../sandbox.fixture.ts';
import { echo, serve } from './relay.fixture.ts';

const isRelay = (pid: number) => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('relay.cjs');
  } catch {
    return false;
  }
};
const relays = () => descendants(process.pid).filter((pid) => isRelay(pid) && isAlive(pid));

const DIAL = `return await new Promise((resolve) => {
  const socket = net.connect(event, '127.0.0.1', () => socket.end('hello')); let text = '';
  socket.on('data', (chunk) => text += chunk).on('end', () => resolve(text)).on('error', ({ code }) => resolve(code));
})`;

describe.each(TIERS)('the relay of tier %s', (tier) => {
  const lines: { level: string; event: string; fields: Record<string, unknown> }[] = [];
  const remember = (level: string) => (fields: object, event: string) =>
    void lines.push({ level, event, fields: { ...fields } });
  const log: Log = {
    ...silentLog,
    debug: remember('debug'),
    info: remember('info'),
    warn: remember('warn'),
    error: remember('error'),
  };
  const counts: Record<string, number> = {};
  const counter: Metrics['counter'] = (name) => ({
    inc(_labels, by = 1) {
      counts[name] = (counts[name] ?? 0) + by;
    },
  });
  const egressLimits = { bytesPerRun: 1024 * 1024 };
  const options = {
    codeAllowNetworks: ['127.0.0.0/8'],
    egressLimits,
    log,
    metrics: { ...noMetrics, counter },
  };
  const sandbox = forSuite(() => openSandbox(tier, options));
  const server = forSuite(() => serve(echo));
  afterAll(() => expect(relays()).toEqual([]));
  const dial = async (process: string) => values(await sandbox.run(DIAL, { event: server.port, process }))[0];

  test('is one process of an unprivileged user, with an empty environment', () => {
    const [pid, ...others] = relays();
    expect(others).toEqual([]);
    if (process.getuid?.() === 0) expect(uidsOf(pid!)).toEqual([65_533, 65_533, 65_533, 65_533]);
    expect(readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean)).toEqual([
      'UV_THREADPOOL_SIZE=64',
    ]);
  });

  test('is restarted if it ends, also for running processes', async () => {
    expect(await dial('restart/1')).toBe('hello');
    const [before] = relays();
    process.kill(before!, 'SIGKILL');
    await eventually(() => !isAlive(before!));
    await eventually(async () => (await dial('restart/1')) === 'hello');
    expect(await dial('restart/2')).toBe('hello');
    expect(relays()).not.toContain(before);
    expect(lines.some(({ event }) => event === 'egress.relay_ended')).toBe(true);
  });

  test('resets connections if it ends, so that none seems complete', async () => {
    const running = sandbox.run(
      `const socket = net.connect(event, '127.0.0.1'); const said = [];
       await new Promise((resolve) => socket.on('connect', () => console.log('up')).on('end', () => said.push('end'))
         .on('error', ({ code }) => said.push(code)).on('close', resolve).resume());
       return said`,
      { event: server.port, process: 'reset/1' },
    );
    const connections = server.connections.length;
    await eventually(() => server.connections.length > connections);
    const [pid] = relays();
    process.kill(pid!, 'SIGKILL');
    expect(values(await running)).toEqual([['ECONNRESET']]);
  });

  test('logs one line per destination of a run, with process and bytes', async () => {
    lines.length = 0;
    expect(await dial('logged/1')).toBe('hello');
    await eventually(() => lines.some(({ event }) => event === 'egress.destination'));
    expect(lines.filter(({ event }) => event === 'egress.destination')).toEqual([
      {
        level: 'debug',
        event: 'egress.destination',
        fields: {
          process: 'logged/1',
          owner: null,
          host: '127.0.0.1',
          port: server.port,
          connections: 1,
          refused: 0,
          sent: 5,
          received: 5,
        },
      },
    ]);
  });

  test('counts established and refused connections', async () => {
    const before = { ...counts };
    const grown = (name: string) => (counts[name] ?? 0) - (before[name] ?? 0);
    expect(await dial('counted/1')).toBe('hello');
    const refused = `return await new Promise((resolve) => net.connect(80, '10.0.0.1').on('error', ({ code }) => resolve(code)))`;
    expect(values(await sandbox.run(refused, { process: 'counted/2' }))).toEqual(['EACCES']);
    await eventually(() => grown('wellspring_egress_refused_total') === 1);
    await eventually(() => grown('wellspring_egress_connections_total') === 1);
  });

  test('logs the refused connections of the self-test, which has no owner, for debugging only', async () => {
    lines.length = 0;
    const refused = `await new Promise((resolve) => net.connect(80, '10.0.0.2').on('error', resolve))`;
    await sandbox.run(refused, { process: 'self-test/1' });
    await eventually(() => lines.some(({ event }) => event === 'egress.refused'));
    expect(lines.filter(({ event }) => event === 'egress.refused')).toMatchObject([{ level: 'debug' }]);
  });

  test('logs many refused connections of an owner for debugging only', async () => {
    lines.length = 0;
    const refused = `await Promise.all(Array.from({ length: 60 }, (_, n) =>
      new Promise((resolve) => net.connect(80, event + n).on('error', resolve))))`;
    const owner = { id: 'u_refused', allowNetworks: [] };
    for (let run = 0; run < 4; run += 1)
      await sandbox.run(refused, { event: `10.0.${run}.`, process: `refused/${run}`, owner });
    const logged = () => lines.filter(({ fields }) => fields.owner === owner.id);
    await eventually(() => expect(logged()).toHaveLength(240));
    expect(logged().filter(({ level }) => level === 'info').length).toBeLessThan(150);
  });

  test('limits the bytes per run, and logs an exceeded limit', async () => {
    const much = `const socket = net.connect(event, '127.0.0.1'); socket.resume();
      socket.write(Buffer.alloc(3_000_000));
      return await new Promise((resolve) => socket.on('error', ({ code, message }) => resolve([code, message])))`;
    const outcome = await sandbox.run(much, { event: server.port, process: 'bytes/1' });
    expect(values(outcome)).toEqual([
      ['EDQUOT', expect.stringContaining('the limit of 1 MB of network traffic per run is reached')],
    ]);
    expect(await dial('bytes/2')).toBe('hello');
    await eventually(async () => (await dial('bytes/1')) === 'hello');
    expect(counts.wellspring_egress_limits_exceeded_total).toBeGreaterThan(0);
  });
});

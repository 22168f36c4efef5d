import { describe, expect, test } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { openSandbox, TIERS, values } from '../sandbox.fixture.ts';
import { echo, isReached, serve } from './relay.fixture.ts';

/**
 * Ways to bypass the socket layer in the sandbox. A bypass may succeed, but must not reach anything. `PORT` is the port
 * of a server on the loopback of the host. Each returns its outcome.
 */
const BYPASSES: Record<string, string> = {
  'the prototype of TCP handles': `
    const { TLSSocket } = process.getBuiltinModule('node:tls');
    const TCP = new TLSSocket()._handle._parent.constructor;
    const handle = new TCP(0);
    const Wrap = Object.getPrototypeOf(handle);
    const original = TCP.prototype.connect;
    TCP.prototype.connect = function (req, address, port) { return original.call(this, req, '127.0.0.1', PORT) };
    return handle.connect({ oncomplete() {} }, '1.1.1.1', PORT)`,
  'net.isIP and syncBuiltinESMExports': `
    net.isIP = () => 0; net.isIPv4 = () => false;
    process.getBuiltinModule('node:module').syncBuiltinESMExports();
    return dial({ host: '127.0.0.1', port: PORT })`,
  'an accessor on Array.prototype[0]': `
    let n = 0;
    Object.defineProperty(Array.prototype, 0, { configurable: true, get() { return n++ ? '127.0.0.1' : '1.1.1.1' }, set() {} });
    const dialled = dial({ host: 'localhost', port: PORT });
    delete Array.prototype[0];
    return dialled`,
  'Function.prototype.call': `
    const { call } = Function.prototype;
    Function.prototype.call = function (self, ...args) {
      return Reflect.apply(this, self, args.map((one) => one && one.host ? { ...one, host: '127.0.0.1', port: PORT } : one));
    };
    const dialled = dial({ host: '127.0.0.1', port: PORT });
    Function.prototype.call = call;
    return dialled`,
  'the handle of a pipe': `
    const Pipe = new net.Socket({ fd: 2 })._handle.constructor;
    const said = [];
    for (const path of ['/var/run/docker.sock', '/run/dbus/system_bus_socket', '\\0/tmp/.X11-unix/X0', event.socket]) {
      const handle = new Pipe(0);
      said.push(await new Promise((resolve) => {
        try {
          const req = { oncomplete: (status) => resolve(status === 0 ? 'connected' : status) };
          const started = handle.connect(req, path);
          if (started !== undefined && started !== 0) resolve(started);
        } catch (error) { resolve(error.message) }
      }));
    }
    return said.includes('connected') ? 'connected' : 'refused'`,
  'Server._listen2': `
    const server = new net.Server();
    return await new Promise((resolve) => {
      server.on('error', ({ code }) => resolve(code)).on('listening', () => resolve('listening'));
      server._listen2('127.0.0.1', 0, 4);
    })`,
  'net._createServerHandle': `
    const handle = net._createServerHandle('127.0.0.1', 0, 4);
    return typeof handle === 'number' ? handle : 'listening'`,
  'the handles of dgram': `
    const dgram = process.getBuiltinModule('node:dgram');
    const handle = dgram._createSocketHandle('127.0.0.1', 0, 'udp4', undefined, 0);
    return typeof handle === 'number' ? handle : 'bound'`,
  'the handles of dns.Resolver': `
    const dns = process.getBuiltinModule('node:dns');
    const resolver = new dns.Resolver({ timeout: 200, tries: 1 });
    const handle = resolver._handle;
    handle.setServers([[4, '127.0.0.1', PORT]]);
    return await new Promise((resolve) => {
      const started = handle.queryA({ oncomplete: (error) => resolve(error ?? 'resolved'), hostname: 'x.example' }, 'x.example');
      if (typeof started === 'number' && started !== 0) resolve(started);
    })`,
  "process.binding('tcp_wrap')": `
    const { TCP, TCPConnectWrap } = process.binding('tcp_wrap');
    const handle = new TCP(0);
    const req = new TCPConnectWrap();
    return await new Promise((resolve) => {
      req.oncomplete = (status) => resolve(status === 0 ? 'connected' : status);
      const started = handle.connect(req, '127.0.0.1', PORT);
      if (started !== 0) resolve(started);
    })`,
  'a Worker without the layer': `
    const { Worker } = process.getBuiltinModule('node:worker_threads');
    return await new Promise((resolve, reject) => {
      new Worker(\`const net = require('node:net');
        net.connect(PORT, '127.0.0.1', () => post('connected')).on('error', ({ code }) => post(code));
        const post = (said) => require('node:worker_threads').parentPort.postMessage(said);\`,
        { eval: true, execArgv: [] }).on('message', resolve).on('error', reject);
    })`,
  'a new program in its place': `
    try { process.execve(process.execPath, [process.execPath, '-e',
      "require('net').connect(PORT, '127.0.0.1').on('error', () => {})"], {}) } catch (error) { return error.code }`,
};

const DIAL = `const dial = (options) => new Promise((resolve) => {
  try { net.connect(options, () => resolve('connected')).on('error', ({ code }) => resolve(code)) }
  catch ({ code, name }) { resolve(code ?? name) }
});`;

/** Tier none does not resist these. */
describe.each(TIERS.filter((tier) => tier !== 'none'))('the network is out of reach in tier %s', (tier) => {
  const sandbox = forSuite(() => openSandbox(tier));
  const canary = forSuite(() => serve(echo));

  test.each(Object.entries(BYPASSES))('by %s', async (_name, body) => {
    const outcome = await sandbox.run(`${DIAL} ${body.replaceAll('PORT', String(canary.port))}`, {
      event: { socket: '/run/eg/../../etc/x' },
      timeoutMs: 10_000,
    });
    // The attempt ended, or failed with an error of the sandbox.
    expect(outcome.ok ? 'ok' : outcome.reason).toMatch(/^(ok|thrown|crash)$/);
    const [said] = values(outcome);
    expect(['connected', 'listening', 'bound', 'resolved']).not.toContain(said);
    expect(canary.connections).toHaveLength(0);
  });

  test('by replacing the socket of the relay', async () => {
    const outcome = await sandbox.run(`
      const said = [];
      for (const act of [() => fs.unlinkSync('/run/eg/s'), () => fs.writeFileSync('/run/eg/x', ''),
        () => fs.chmodSync('/run/eg/s', 0), () => fs.renameSync('/run/eg/s', '/run/eg/t'), () => fs.rmdirSync('/run/eg')])
        try { act(); said.push('done') } catch ({ code }) { said.push(/^(EROFS|EACCES|EPERM|EBUSY)$/.test(code) ? 'refused' : code) }
      return said`);
    expect(values(outcome)).toEqual([['refused', 'refused', 'refused', 'refused', 'refused']]);
  });

  test('while the server is reachable from outside (positive control)', async () => {
    await isReached(canary);
  });
});

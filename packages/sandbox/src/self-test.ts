import { createHash } from 'node:crypto';
import type { Bundle } from '@wellspring/contract/definition';
import { cidrList } from '@wellspring/core/addresses';
import { type Executor, noEffects } from './port.ts';

/** Notations of private addresses, and the address of each. */
const PRIVATE: [written: string, address: string][] = [
  ['169.254.169.254', '169.254.169.254'],
  ['0x7f.1', '127.0.0.1'],
  ['::ffff:10.0.0.1', '10.0.0.1'],
  ['100.100.100.200', '100.100.100.200'],
];

/**
 * Attempts that only the kernel can refuse. Sockets: below the layer of entry/network. The system calls are harmless;
 * any user may make them without a filter.
 */
const KERNEL = `
attempt('a file above its root', () => fs.statSync('/../../../usr/bin'));
attempt('writing beside the socket of its relay', () => fs.writeFileSync('/run/eg/x', ''));
attempt('changing the socket of its relay', () => fs.chmodSync('/run/eg', 0o777));
attempt('writing the program of the children', () => fs.openSync('/rt/child.mjs', 'r+'));
attempt('a system call that is not allowed', () => os.setPriority(0, 19));
attempt('another system call that is not allowed', () => process.setuid(process.getuid()));
attempt('the user root', () => process.getuid() === 0 || process.getgroups().includes(0));
// In a PID namespace of its own, this process is 1 and its threads have the next numbers.
const isForeign = (pid) => pid > 0 && (process.pid !== 1 || pid > 100);
attempt('a signal to a process of the host', () => HOST_PIDS.filter(isForeign).some((pid) => { try { return process.kill(pid, 0); } catch { return false; } }));
const RAW = \`
  const { TLSSocket } = process.getBuiltinModule('node:tls');
  const raw = () => new (new TLSSocket()._handle._parent.constructor)(0);
  const results = [raw().bind('127.0.0.1', 0), raw().bind6('::1', 0, 0)];
\`;
const ofRaw = { main: (0, eval)('(() => {' + RAW + 'return results })()') };
ofRaw.thread = await new Promise((resolve, reject) => new Worker(RAW + "process.getBuiltinModule('node:worker_threads').parentPort.postMessage(results)", { eval: true })
  .on('message', resolve).on('error', reject));
for (const [where, results] of Object.entries(ofRaw)) if (!results.every((result) => result < 0)) reached.push('a raw socket: ' + where);
`;

/**
 * Component whose name lists everything that it reached outside of the sandbox, or is `contained`.
 * @param hostPids undefined: the tier works without the kernel, so KERNEL is left out
 */
const probe = (unreachable: readonly string[], hostPids: readonly number[] | undefined) => `
import fs from 'node:fs';
import { spawnSync } from 'node:child_process';
import { Worker } from 'node:worker_threads';
import net from 'node:net';
import os from 'node:os';
const reached = [];
const attempt = (what, act) => { try { if (act() !== false) reached.push(what); } catch {} };
attempt('/etc/shadow', () => fs.readFileSync('/etc/shadow'));
attempt('/root', () => fs.readdirSync('/root'));
attempt('the environment of process 1', () => fs.readFileSync('/proc/1/environ').length > 0);
attempt('a file of the host by a link', () => { fs.symlinkSync('/etc/shadow', os.tmpdir() + '/s'); fs.readFileSync(os.tmpdir() + '/s'); });
attempt('files of the host', () => fs.statSync('/usr/bin'));
attempt('the programs of the host', () => fs.readdirSync('/bin'));
attempt('writing the program of Node', () => fs.openSync(process.execPath, 'r+'));
attempt('writing its own code', () => fs.writeFileSync(new URL('./x', import.meta.url), 'x'));
attempt('another program', () => spawnSync('/bin/sh', ['-c', 'true']).status === 0);
if (process.permission) attempt('a worker thread', () => new Worker('', { eval: true }));
attempt('signals', () => process.kill(process.ppid || -1, 0));
if (process.permission) attempt('another program in its place', () => process.execve('/bin/true', ['true'], {}));
const dial = (host) => new Promise((resolve) => {
  const socket = net.connect({ host, port: 9 }, () => resolve(true));
  socket.on('error', ({ code }) => resolve(code !== 'EACCES'));
});
for (const host of ${JSON.stringify(unreachable)}) if (await dial(host)) reached.push(host);
attempt('listening', () => net.createServer().listen(0));
${hostPids ? KERNEL.replace('HOST_PIDS', JSON.stringify(hostPids)) : ''}
attempt('the environment', () => Object.keys(process.env).some((name) => !/^(HOME|PATH|PWD|TMPDIR|TZ|NODE_ENV)$/.test(name)));
export default { name: reached.length === 0 ? 'contained' : reached.join(', ') };
`;

/** Generous, so that a busy machine does not lead to a weaker tier. */
const PROBE_MS = 60_000;

/**
 * @param codeAllowNetworks CIDRs that code may reach
 * @param hostPids processes of the host, which code must not be able to signal
 * @returns undefined if the tier isolates code, otherwise the reason for which it does not
 */
export async function selfTest(
  executor: Executor,
  codeAllowNetworks: readonly string[],
  hostPids: readonly number[] = [process.pid, process.ppid],
): Promise<string | undefined> {
  const isAllowed = cidrList(codeAllowNetworks);
  const unreachable = PRIVATE.filter(([, address]) => !isAllowed(address)).map(([written]) => written);
  const bundle: Bundle = {
    format: 'esm',
    code: probe(unreachable, executor.tier === 'none' ? undefined : hostPids),
    packages: {},
    lockfile: null,
  };
  // Bundles are cached by id: each probe needs its own.
  const bundleId = `self-test-${createHash('sha256').update(bundle.code).digest('hex').slice(0, 16)}`;
  try {
    const result = await executor.execute(
      { bundleId, readBundle: async () => bundle, call: { kind: 'define' } },
      noEffects,
      {
        timeoutMs: PROBE_MS,
      },
    );
    if (!result.ok) return `the probe failed: ${result.error.message}`;
    return result.definition?.name === 'contained'
      ? undefined
      : `the probe reached ${result.definition?.name}`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

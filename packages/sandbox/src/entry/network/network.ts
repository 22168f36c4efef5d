import dgram from 'node:dgram';
import { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';
import os from 'node:os';
import { isMainThread } from 'node:worker_threads';
import { createChannel } from './channel.ts';
import { patchConnect, WARM_HOST } from './connect.ts';
import { patchDns } from './dns.ts';
import { notAllowed } from './errors.ts';

/**
 * The network of user code, loaded by `--require` in every thread before other modules: directs Node's sockets and
 * look-ups to the relay. Not a security boundary: the sandbox has no socket family except AF_UNIX and no network
 * interface, so code that bypasses this module has no network.
 */

/** In tiers with a separate root, the only ones with worker threads. */
const DEFAULT_PATH = '/run/eg/s';
const WARM_UP_MS = 1000;

const path = isMainThread ? (process.argv[2] ?? DEFAULT_PATH) : DEFAULT_PATH;
const channel = createChannel(path);
patchConnect(path, channel, patchDns(channel));

const refuse = (what: string, syscall: string) => () => {
  throw notAllowed(what, syscall);
};
net.Server.prototype.listen = refuse(
  'code may not listen; use an HTTP interface of the component',
  'listen',
) as never;
dgram.createSocket = refuse('code has no UDP', 'socket') as never;
dgram.Socket.prototype.bind = refuse('code has no UDP', 'bind') as never;
dgram.Socket.prototype.send = refuse('code has no UDP', 'send') as never;
os.networkInterfaces = () => ({});
syncBuiltinESMExports();

/** Settles when the relay is connected, or cannot be reached within seconds. */
export const opened: Promise<void> = channel.open().catch(() => {});

/** Makes one request with `http` and one with `fetch`, so that their modules are loaded and compiled. */
export async function warmUp(): Promise<void> {
  // Loaded only here: without it, a process is ready some milliseconds earlier.
  const { default: http } = await import('node:http');
  const url = `http://${WARM_HOST}/`;
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), WARM_UP_MS);
  const viaHttp = new Promise<void>((resolve) => {
    http
      .get(url, { agent: false, signal: late.signal }, (response) => response.on('end', resolve).resume())
      .on('error', () => resolve());
  });
  await Promise.allSettled([
    viaHttp,
    fetch(url, { signal: late.signal, headers: { connection: 'close' } }).then((response) => response.text()),
  ]);
  clearTimeout(timer);
}

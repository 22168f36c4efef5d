import dgram from 'node:dgram';
import dns from 'node:dns';
import { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';
import os from 'node:os';
import { createAddressGuard } from '@wellspring/core/addresses';

/**
 * Keeps user code from addresses that are not public. It works on the socket layer inside the child, under http,
 * https, fetch and every client built on them; names are resolved once and only checked addresses are dialled. It is
 * not a boundary against code that goes below that layer: the relay outside of the sandbox will be.
 */

const refused = (what: string) =>
  Object.assign(new Error(`connect EACCES ${what}: not a public address`), {
    code: 'EACCES',
    syscall: 'connect',
  });

type Lookup = (
  hostname: string,
  options: dns.LookupAllOptions,
  callback: (error: Error | null, address: unknown, family?: number) => void,
) => void;

/** @param allowed CIDRs that may be reached all the same */
export function guardSockets(allowed: readonly string[]): void {
  const isAllowed = createAddressGuard(allowed);
  const resolve = dns.lookup;
  const connect = net.Socket.prototype.connect;
  const normalizeArgs = (
    net as unknown as { _normalizeArgs(args: unknown[]): [Record<string, unknown>, unknown] }
  )._normalizeArgs;
  const destroy = net.Socket.prototype.destroy;
  const { isIP } = net;
  // The guard decides by it.
  Object.freeze(net.BlockList.prototype);

  const lookup: Lookup = (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, []);
      const dialled: dns.LookupAddress[] = [];
      for (let at = 0; at < addresses.length; at += 1) {
        const address = addresses[at]!;
        if (isAllowed(address.address)) dialled[dialled.length] = address;
      }
      const first = dialled[0];
      if (!first) return callback(refused(hostname), []);
      if (options.all) return callback(null, dialled);
      callback(null, first.address, first.family);
    });
  };

  function guarded(this: net.Socket, ...args: unknown[]): net.Socket {
    const [given, callback] = Array.isArray(args[0])
      ? (args[0] as ReturnType<typeof normalizeArgs>)
      : normalizeArgs(args);
    // A copy: what was checked is what is dialled.
    const options = { ...given };
    const host = options.host === undefined || options.host === null ? 'localhost' : String(options.host);
    if (options.path !== undefined && options.path !== null)
      return destroy.call(this, refused(String(options.path))) as net.Socket;
    if (isIP(host) !== 0 && !isAllowed(host)) {
      process.nextTick(() => destroy.call(this, refused(host)));
      return this;
    }
    return connect.call(this, { ...options, host, lookup } as never, callback as never);
  }
  net.Socket.prototype.connect = guarded as never;
  const forbidden = (what: string) => () => {
    throw Object.assign(new Error(`EACCES: ${what} is not allowed`), { code: 'EACCES' });
  };
  net.Server.prototype.listen = forbidden('listening') as never;
  dgram.createSocket = forbidden('UDP') as never;
  dgram.Socket.prototype.bind = forbidden('UDP') as never;
  guardNameServers(isAllowed);
  // The host's addresses are its own affair; asking for them would fail where sockets are filtered.
  os.networkInterfaces = () => ({});
  syncBuiltinESMExports();
}

/** Questions to name servers do not go through sockets of Node: code may not say who they are put to. */
function guardNameServers(isAllowed: (address: string) => boolean): void {
  const { prototype } = dns.Resolver;
  type Owner = { setServers(servers: readonly string[]): void };
  for (const owner of [dns, dns.promises, Object.getPrototypeOf(prototype), prototype] as Owner[]) {
    if (!Object.hasOwn(owner, 'setServers')) continue;
    const set = owner.setServers;
    owner.setServers = function setServers(servers) {
      const copy = [...servers];
      for (const server of copy) {
        const [, address = server] = /^\[?([^\]]*?)\]?(?::\d+)?$/.exec(server) ?? [];
        if (!isAllowed(server) && !isAllowed(address)) throw refused(server);
      }
      set.call(this, copy);
    };
  }
}

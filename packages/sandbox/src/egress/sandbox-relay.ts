import type { Socket } from 'node:net';
import { type Channel, createChannel, type Unread } from './channel.ts';
import { dial } from './dial.ts';
import { createRateLimit, type EgressLimits } from './limits.ts';
import { listen } from './listener.ts';
import { createLookups, type Lookup } from './lookups.ts';
import type { Target } from './policy.ts';
import { readPreamble } from './preamble-reader.ts';
import { type Pump, pump } from './pump.ts';
import { RelayError, toWire } from './relay-error.ts';
import type { Release, Share } from './shares.ts';
import { createTraffic, type Destination } from './traffic.ts';
import { type Answer, OPERATION, type Preamble, type WireError } from './wire.ts';

/** Decisions of the relay for the owner of a sandbox. */
export interface Rules {
  /** Addresses of the target that may be dialled. @throws RelayError if all are refused; errors of the look-up */
  resolve(target: Target): Promise<string[]>;
  /** The answer to a look-up, in the format of the channel. @throws as above */
  ask(question: Lookup): Promise<Omit<Answer, 'id'>>;
}

export interface SandboxRelayOptions {
  /** Path of the unix socket, to which only the sandbox can connect. */
  path: string;
  limits: EgressLimits;
  rules: Rules;
  share: Share;
  /** Called for the first byte or connection since the last report. */
  onUsed(): void;
  /** Called with the name of an exceeded limit, at most once per limit and report. */
  onLimit(limit: string): void;
}

/** The relay of one sandbox. */
export interface SandboxRelay {
  /** Lets connections begin: the sandbox has an owner. */
  assign(): void;
  report(): Destination[];
  close(): void;
}

/** Accepted connections beyond the limit: channels of threads, and connections without complete preamble. */
const EXTRA_ACCEPTED = 64;
const MAX_CHANNELS = 32;
/** Time in which a running thread acknowledges a reset. */
const ACKNOWLEDGE_MS = 1000;
const MB = 1024 * 1024;
const WARM_RESPONSE = 'HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok';

interface Connection {
  inside: Socket;
  abort: AbortController;
  /** Gives back its part of the owner's share. */
  release: Release;
  /** Called when the thread acknowledges a reset. */
  acknowledged?: () => void;
  /** Set once the connection is established. */
  pump?: Pump;
}

/** One owner gets at most half of the total, less while others use theirs. */
const ofShare = (total: number) => `the owner's share of ${total}`;

const exceeded = (code: string, limit: string, { host, port }: Target): WireError => ({
  code,
  syscall: 'connect',
  message: `connect ${code} ${host}:${port}: the limit of ${limit} is reached`,
  address: host,
  port,
});

export function createSandboxRelay({
  path,
  limits,
  rules,
  share,
  onUsed,
  onLimit,
}: SandboxRelayOptions): SandboxRelay {
  const channels = new Map<number, Channel>();
  const connections = new Map<string, Connection>();
  const accepted = new Set<Socket>();
  const unread: Unread = { bytes: 0 };
  const traffic = createTraffic();
  const mayConnect = createRateLimit(limits.connectionsPerSecond, limits.connectionBurst);
  const mayTalk = createRateLimit(limits.linesPerSecond, limits.lineBurst);
  const answer = createLookups(limits, rules.ask);
  let reportedLimits = new Set<string>();
  let assign: () => void = () => {};
  const assigned = new Promise<void>((resolve) => {
    assign = resolve;
  });

  function use(): void {
    if (traffic.isEmpty) onUsed();
  }

  function limitReached(code: string, limit: string, target: Target): RelayError {
    if (!reportedLimits.has(limit)) {
      reportedLimits.add(limit);
      onLimit(limit);
    }
    return new RelayError(exceeded(code, limit, target));
  }

  const bytesLimit = `${Math.round(limits.bytesPerRun / MB)} MB of network traffic per run`;
  const unsentLimit = `${ofShare(Math.round(limits.totalUnsentBytes / MB))} MB that the other side does not read`;

  /** @returns the connection's part of the owner's share */
  function checkLimits(target: Target): Release {
    if (connections.size >= limits.connections)
      throw limitReached('EMFILE', `${limits.connections} connections at the same time`, target);
    if (!mayConnect(performance.now()))
      throw limitReached('EAGAIN', `${limits.connectionsPerSecond} new connections per second`, target);
    if (traffic.bytes >= limits.bytesPerRun) throw limitReached('EDQUOT', bytesLimit, target);
    const release = share.connection();
    if (!release) throw limitReached('EMFILE', `${ofShare(limits.totalConnections)} connections`, target);
    return release;
  }

  async function dialWithinShare(addresses: string[], target: Target, signal: AbortSignal): Promise<Socket> {
    const { connectMs: timeoutMs } = limits;
    const release = await share.dial(signal, timeoutMs).catch(() => {
      signal.throwIfAborted();
      throw limitReached('EAGAIN', `${ofShare(limits.totalDials)} connections being opened`, target);
    });
    try {
      return await dial(addresses.slice(0, limits.addresses), target.port, { timeoutMs, signal });
    } finally {
      release();
    }
  }

  function forget(key: string, connection: Connection): void {
    if (connections.get(key) === connection) connections.delete(key);
    connection.release();
  }

  async function connectTo(inside: Socket, { channel: number, id, host, port }: Preamble): Promise<void> {
    const channel = channels.get(number);
    const key = `${number} ${id}`;
    if (!channel || connections.has(key)) {
      inside.destroy();
      return;
    }
    const target = { host, port };
    use();
    const destination = traffic.at(target);
    const connection: Connection = { inside, abort: new AbortController(), release() {} };
    const { signal } = connection.abort;
    const onClosed = () => connection.abort.abort(new Error('the sandbox closed the connection'));
    inside.on('error', onClosed).on('close', onClosed);
    let outside: Socket;
    try {
      connection.release = checkLimits(target);
      connections.set(key, connection);
      const addresses = await rules.resolve(target);
      signal.throwIfAborted();
      outside = await dialWithinShare(addresses, target, signal);
    } catch (error) {
      forget(key, connection);
      destination.refused += 1;
      channel.send({ id, failed: toWire(error, { syscall: 'connect', address: host, port }) });
      inside.destroy();
      return;
    }
    destination.connections += 1;
    inside.off('error', onClosed).off('close', onClosed);
    const close = () => {
      forget(key, connection);
      inside.destroy();
      outside.destroy();
    };
    const address = outside.remoteAddress ?? '';
    channel.send({ id, connected: { address, family: address.includes(':') ? 6 : 4, port } });
    signal.addEventListener('abort', () => {
      outside.resetAndDestroy();
      close();
    });
    outside.setTimeout(limits.idleMs, () => {
      const error = { code: 'ETIMEDOUT', syscall: 'read' };
      outside.destroy(
        new RelayError({
          ...error,
          message: `read ETIMEDOUT: the limit of ${limits.idleMs / 1000} s without a byte is reached`,
        }),
      );
    });
    connection.pump = pump(inside, outside, {
      count(direction, bytes) {
        use();
        traffic.add(destination, direction, bytes);
        if (traffic.bytes > limits.bytesPerRun) throw limitReached('EDQUOT', bytesLimit, target);
        const release = share.unsent(bytes);
        if (!release) throw limitReached('ENOBUFS', unsentLimit, target);
        return release;
      },
      pass: share.pass,
      onBroken(error) {
        // The sandbox reads the bytes before the reset, then gets this error instead of an end.
        const late = setTimeout(close, ACKNOWLEDGE_MS);
        connection.acknowledged = () => {
          clearTimeout(late);
          inside.end();
          close();
        };
        channel.send({ id, reset: toWire(error, { syscall: 'read' }) });
      },
      onClose: close,
    });
  }

  function openChannel(socket: Socket, { channel: number }: Preamble): void {
    if (channels.size >= MAX_CHANNELS && !channels.has(number)) {
      socket.destroy();
      return;
    }
    const channel = createChannel(socket, mayTalk, unread, share.unsent, (question) => {
      if ('acknowledge' in question) connections.get(`${number} ${question.acknowledge}`)?.acknowledged?.();
      else if ('close' in question) {
        const { pump, abort } = connections.get(`${number} ${question.close}`) ?? {};
        if (pump) pump.insideIsClosed();
        else abort?.abort(new Error('the sandbox closed the connection'));
      } else void assigned.then(() => answer(channel, question));
    });
    channels.get(number)?.close();
    channels.set(number, channel);
    socket.once('close', () => {
      if (channels.get(number) !== channel) return;
      channels.delete(number);
      // The thread has ended.
      for (const [key, { abort }] of connections) if (key.startsWith(`${number} `)) abort.abort();
    });
  }

  function warm(socket: Socket, { channel, id }: Preamble): void {
    channels.get(channel)?.send({ id, connected: { address: '0.0.0.0', family: 4, port: 80 } });
    // Destroyed with the answer: code may use it, too, and what it sends here counts for no limit.
    socket.once('data', () => socket.end(WARM_RESPONSE, () => socket.destroy()));
    socket.once('end', () => socket.destroy());
    socket.resume();
  }

  function accept(socket: Socket): void {
    const release = accepted.size < limits.connections + EXTRA_ACCEPTED ? share.socket() : undefined;
    if (!release) {
      socket.destroy();
      return;
    }
    accepted.add(socket);
    socket.once('close', () => {
      accepted.delete(socket);
      release();
    });
    socket.on('error', () => {});
    readPreamble(socket, limits.preambleMs, (preamble) => {
      if (preamble.operation === OPERATION.control) openChannel(socket, preamble);
      else if (preamble.operation === OPERATION.warm) warm(socket, preamble);
      else void assigned.then(() => connectTo(socket, preamble));
    });
  }

  const stopListening = listen(path, accept);

  return {
    assign: () => assign(),
    report() {
      reportedLimits = new Set();
      return traffic.report();
    },
    close() {
      stopListening();
      for (const { abort } of connections.values()) abort.abort();
      for (const socket of accepted) socket.destroy();
    },
  };
}

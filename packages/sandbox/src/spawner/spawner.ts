import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Log } from '@wellspring/core/log';
import { type Connection, connect } from '../connection.ts';
import { onProcessors } from '../scheduling.ts';
import { type Command, type Order, type Report, STREAMS, streamHeader } from './messages.ts';
import { killTree } from './process-tree.ts';

/** A process that the spawner has started. */
export interface SpawnedProcess {
  readonly stdout: Socket;
  readonly stderr: Socket;
  readonly frames: Connection;
  readonly pid: number;
  /** Resolves when it has ended and its streams were read and closed. */
  readonly ended: Promise<Exit>;
  /** Kills it with the method of its command. */
  kill(): void;
}

export interface Exit {
  exitCode: number | null;
  signal: NodeJS.Signals | null;
}

/**
 * Starts processes from a separate, small process. A fork blocks the forking process for a time proportional to its
 * memory: 40 ms with 450 MB, 4 ms with 50 MB (measured).
 */
export interface Spawner {
  /** @throws Error if the program cannot be started, or the spawner is closed or ends */
  spawn(command: Command): Promise<SpawnedProcess>;
  /** Kills its processes. */
  close(): Promise<void>;
}

export interface SpawnerOptions {
  /** Path of the spawner's program. */
  program: string;
  /** Directory for its socket. */
  directory: string;
  log: Log;
  /** Processors of the spawner and its processes; default: those of this process. */
  processors?: readonly number[] | undefined;
}

interface Streams {
  stdout: Socket;
  stderr: Socket;
  frames: Connection;
  /** Resolves when all are closed. */
  allClosed: Promise<unknown>;
}

interface Entry {
  pid?: number;
  streams: Streams;
  resolve(started: SpawnedProcess): void;
  reject(error: Error): void;
  exited: PromiseWithResolvers<Exit>;
}

interface Running {
  child: ChildProcess;
  listening: PromiseWithResolvers<void>;
}

const HEAP_MB = 64;
const ENDED = 'The process that starts others has ended.';
const CLOSED = 'the sandbox is closed';

/** Errors of a connection to a spawner that has ended. */
const GONE: ReadonlySet<string | undefined> = new Set(['ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'EPIPE']);

/** In the order of `STREAMS`. */
const socketsOf = ({ stdout, stderr, frames }: Omit<Streams, 'allClosed'>) => [stdout, stderr, frames.socket];
const closeOf = (stream: Socket) => new Promise<void>((resolve) => stream.once('close', () => resolve()));

export function createSpawner({ program, directory, log, processors }: SpawnerOptions): Spawner {
  const entries = new Map<number, Entry>();
  const token = randomBytes(16).toString('hex');
  // `mkdtemp`: only this user may enter it.
  const path = join(mkdtempSync(join(directory, 'sp-')), 's');
  let lastId = 0;
  let closed = false;
  let running: Running | undefined;
  let ended: Promise<void> = Promise.resolve();

  const send = (order: Order) => void running?.child.send(order, () => {});

  /** @throws Error if the spawner has ended */
  async function connectStreams(id: number): Promise<Streams> {
    const streams = {
      stdout: createConnection(path),
      stderr: createConnection(path),
      frames: connect({ path }),
    };
    const sockets = socketsOf(streams);
    const closes = sockets.map(closeOf);
    // Of one that has connected already, while another has not.
    for (const socket of sockets) socket.on('error', () => {});
    try {
      await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    } catch (error) {
      for (const socket of sockets) socket.destroy();
      throw GONE.has((error as NodeJS.ErrnoException).code) ? new Error(closed ? CLOSED : ENDED) : error;
    }
    for (const [n, socket] of sockets.entries()) socket.write(streamHeader(token, id, STREAMS[n]!));
    return { ...streams, allClosed: Promise.all(closes) };
  }

  function fail({ pid, streams, reject, exited }: Entry, message: string): void {
    if (pid !== undefined) killTree({ pid, exitCode: null, signalCode: null });
    for (const socket of socketsOf(streams)) socket.destroy();
    reject(new Error(message));
    exited.resolve({ exitCode: null, signal: 'SIGKILL' });
  }

  function receive(report: Exclude<Report, { type: 'listening' }>): void {
    const { id } = report;
    const entry = entries.get(id);
    if (!entry) return;
    if (report.type === 'started') {
      const { exited, resolve } = entry;
      const { allClosed, ...streams } = entry.streams;
      entry.pid = report.pid;
      resolve({
        pid: report.pid,
        ...streams,
        ended: allClosed.then(() => exited.promise),
        kill: () => entries.has(id) && send({ type: 'kill', id }),
      });
      return;
    }
    entries.delete(id);
    if (report.type === 'failed') fail(entry, report.message);
    else entry.exited.resolve(report);
  }

  function start(): Running {
    const [file, ...args] = onProcessors(processors, [
      process.execPath,
      `--max-old-space-size=${HEAP_MB}`,
      program,
      path,
      token,
    ]);
    const child = spawn(file, args, {
      // A separate process group, like those of its processes.
      detached: true,
      cwd: '/',
      env: {},
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    let stderr = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-2048);
    });
    const listening = Promise.withResolvers<void>();
    listening.promise.catch(() => {});
    const self = { child, listening };
    child.on('message', (report: Report) => {
      if (report.type === 'listening') listening.resolve();
      else receive(report);
    });
    ended = new Promise((resolve) => {
      const onEnd = (error?: Error) => {
        if (running === self) {
          running = undefined;
          const message = error?.message ?? (stderr.trim() || ENDED);
          // The ends of its processes are no longer reported.
          for (const entry of entries.values()) fail(entry, closed ? CLOSED : message);
          listening.reject(new Error(closed ? CLOSED : message));
          entries.clear();
          if (!closed) log.error({ error: message }, 'sandbox.spawner_ended');
        }
        resolve();
      };
      child.once('error', onEnd);
      child.once('exit', () => onEnd());
    });
    return self;
  }

  return {
    async spawn(command) {
      if (closed) throw new Error(CLOSED);
      running ??= start();
      const spawner = running;
      await spawner.listening.promise;
      lastId += 1;
      const id = lastId;
      const streams = await connectStreams(id);
      return new Promise((resolve, reject) => {
        const entry = { streams, resolve, reject, exited: Promise.withResolvers<Exit>() };
        if (running !== spawner) return fail(entry, closed ? CLOSED : ENDED);
        entries.set(id, entry);
        send({ type: 'spawn', id, command });
      });
    },
    async close() {
      closed = true;
      if (running?.child.connected) running.child.disconnect();
      await ended;
    },
  };
}

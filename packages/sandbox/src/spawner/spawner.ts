import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import type { Log } from '@wellspring/core/log';
import { onProcessors } from '../scheduling.ts';
import { type Command, type Order, type Report, STREAMS, type StreamName } from './messages.ts';
import { killTree } from './process-tree.ts';
import { acceptStreams } from './streams.ts';

/** A process that the spawner has started. */
export interface SpawnedProcess extends Readonly<Record<StreamName, Socket>> {
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

interface Entry {
  pid?: number;
  streams: Partial<Record<StreamName, Socket>>;
  resolve(started: SpawnedProcess): void;
  reject(error: Error): void;
  exited: PromiseWithResolvers<Exit>;
  hasExited: boolean;
}

const HEAP_MB = 64;
const ENDED = 'The process that starts others has ended.';
const CLOSED = 'the sandbox is closed';

const closeOf = (stream: Socket) => new Promise<void>((resolve) => stream.once('close', () => resolve()));

export function createSpawner({ program, directory, log, processors }: SpawnerOptions): Spawner {
  const entries = new Map<number, Entry>();
  const token = randomBytes(16).toString('hex');
  // `mkdtemp`: only this user may enter it.
  const path = join(mkdtempSync(join(directory, 'sp-')), 's');
  let lastId = 0;
  let closed = false;
  let running: ChildProcess | undefined;
  let ended: Promise<void> = Promise.resolve();

  const send = (order: Order) => void running?.send(order, () => {});

  const server = acceptStreams({
    path,
    token,
    onStream(stream, id, name) {
      const entry = entries.get(id);
      if (!entry || entry.streams[name]) return void stream.destroy();
      entry.streams[name] = stream;
      settle(id, entry);
    },
  });

  /** The streams of a process and the report of its start arrive in any order. */
  function settle(id: number, entry: Entry): void {
    const { pid, resolve, exited } = entry;
    const { stdout, stderr, frames } = entry.streams;
    if (pid === undefined || !stdout || !stderr || !frames) return;
    if (entry.hasExited) entries.delete(id);
    const closes = [stdout, stderr, frames].map(closeOf);
    resolve({
      pid,
      stdout,
      stderr,
      frames,
      ended: Promise.all([exited.promise, ...closes]).then(([exit]) => exit),
      kill: () => entries.has(id) && send({ type: 'kill', id }),
    });
  }

  function fail({ pid, streams, reject, exited }: Entry, message: string): void {
    if (pid !== undefined) killTree({ pid, exitCode: null, signalCode: null });
    for (const name of STREAMS) streams[name]?.destroy();
    reject(new Error(message));
    exited.resolve({ exitCode: null, signal: 'SIGKILL' });
  }

  function receive(report: Report): void {
    const { id } = report;
    const entry = entries.get(id);
    if (!entry) return;
    if (report.type === 'started') {
      entry.pid = report.pid;
      settle(id, entry);
      return;
    }
    if (report.type === 'failed') {
      entries.delete(id);
      fail(entry, report.message);
      return;
    }
    // Otherwise `settle` does, when its streams have come.
    if (STREAMS.every((name) => entry.streams[name])) entries.delete(id);
    entry.hasExited = true;
    entry.exited.resolve(report);
  }

  function start(): ChildProcess {
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
    child.on('message', receive);
    ended = new Promise((resolve) => {
      const onEnd = (error?: Error) => {
        if (running === child) {
          running = undefined;
          const message = error?.message ?? (stderr.trim() || ENDED);
          // The ends of its processes are no longer reported.
          for (const entry of entries.values()) fail(entry, closed ? CLOSED : message);
          entries.clear();
          if (!closed) log.error({ error: message }, 'sandbox.spawner_ended');
        }
        resolve();
      };
      child.once('error', onEnd);
      child.once('exit', () => onEnd());
    });
    return child;
  }

  return {
    async spawn(command) {
      await server.listening;
      if (closed) throw new Error(CLOSED);
      running ??= start();
      lastId += 1;
      const id = lastId;
      return new Promise((resolve, reject) => {
        const exited = Promise.withResolvers<Exit>();
        entries.set(id, { streams: {}, resolve, reject, exited, hasExited: false });
        send({ type: 'spawn', id, command });
      });
    },
    async close() {
      closed = true;
      if (running?.connected) running.disconnect();
      await ended;
      await server.close();
    },
  };
}

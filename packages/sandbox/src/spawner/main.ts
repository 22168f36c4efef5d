import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import { lowerPriority } from '../scheduling.ts';
import { type Command, type Order, type Report, STREAMS, type StreamName, streamHeader } from './messages.ts';
import { killTree } from './process-tree.ts';

// Program of the spawner: starts processes whose streams are connections to the platform.

interface Started {
  child: ChildProcess;
  killMethod: Command['killMethod'];
}

// Inherited by all processes: when memory runs out, the kernel kills user code and not the platform.
try {
  writeFileSync('/proc/self/oom_score_adj', '1000');
} catch {
  // Not Linux.
}

/** Path of the platform's socket, and token of connections to it. */
const [, , path = '', token = ''] = process.argv;
const processes = new Map<number, Started>();

// If a report cannot be sent, `disconnect` follows.
const report = (message: Report) => void process.send?.(message, undefined, {}, () => {});

async function connect(id: number, name: StreamName): Promise<Socket> {
  const socket = createConnection(path);
  socket.on('error', () => {});
  await once(socket, 'connect');
  await new Promise<void>((resolve, reject) => {
    socket.write(streamHeader(token, id, name), (error) => (error ? reject(error) : resolve()));
  });
  return socket;
}

async function start(id: number, { file, args, input, killMethod, ...options }: Command): Promise<void> {
  const opened = input === undefined ? [] : [openSync(input, 'r')];
  let streams: Socket[] = [];
  try {
    streams = await Promise.all(STREAMS.map((name) => connect(id, name)));
    const child = spawn(file, args, {
      ...options,
      // A separate process group, so that Ctrl-C in a terminal does not end runs.
      detached: true,
      stdio: ['ignore', ...streams, ...opened],
    });
    const { pid } = child;
    if (pid === undefined) {
      const [error] = await once(child, 'error');
      throw error;
    }
    child.on('error', () => {});
    lowerPriority(pid);
    processes.set(id, { child, killMethod });
    child.on('exit', (exitCode, signal) => {
      processes.delete(id);
      report({ type: 'exited', id, exitCode, signal });
    });
    report({ type: 'started', id, pid });
  } finally {
    for (const descriptor of opened) closeSync(descriptor);
    for (const stream of streams) stream.destroy();
  }
}

function kill({ child, killMethod }: Started): void {
  if (killMethod === 'tree') killTree(child);
  else child.kill(killMethod);
}

process.on('message', (order: Order) => {
  const { id } = order;
  if (order.type === 'spawn') {
    start(id, order.command).catch(({ message }) => report({ type: 'failed', id, message }));
    return;
  }
  const started = processes.get(id);
  if (started) kill(started);
});

// The platform has closed the channel, or has ended.
process.on('disconnect', () => {
  for (const started of processes.values()) kill(started);
  process.exit();
});

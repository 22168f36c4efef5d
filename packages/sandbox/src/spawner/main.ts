import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { lowerPriority } from '../scheduling.ts';
import type { Command, Order, Report } from './messages.ts';
import { killTree } from './process-tree.ts';
import { acceptStreams } from './streams.ts';

// Program of the spawner: starts processes whose streams are connections of the platform.

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

/** Path of its socket, and token of connections to it. */
const [, , path = '', token = ''] = process.argv;
const processes = new Map<number, Started>();

// If a report cannot be sent, `disconnect` follows.
const report = (message: Report) => void process.send?.(message, undefined, {}, () => {});

const accepted = acceptStreams(path, token);
accepted.listening.then(() => report({ type: 'listening' }));

async function start(id: number, { file, args, input, killMethod, ...options }: Command): Promise<void> {
  const streams: Socket[] = await accepted.take(id);
  const opened: number[] = [];
  try {
    if (input !== undefined) opened.push(openSync(input, 'r'));
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

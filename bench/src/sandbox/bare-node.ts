import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { now } from '../load.ts';

/** The baselines: a Node.js process without a sandbox that answers over a socket pair. */

const ECHO = fileURLToPath(new URL('./echo-child.mjs', import.meta.url));

interface BareNode {
  child: ChildProcess;
  socket: Socket;
  /** From spawn() to the first byte, ms. */
  readyMs: number;
}

export async function startBareNode(): Promise<BareNode> {
  const began = now();
  const child = spawn(process.execPath, [ECHO], { env: {}, stdio: ['ignore', 'ignore', 'inherit', 'pipe'] });
  const socket = child.stdio[3] as Socket;
  await once(socket, 'data');
  return { child, socket, readyMs: now() - began };
}

export async function endBareNode({ child }: BareNode): Promise<void> {
  child.kill('SIGKILL');
  await once(child, 'exit');
}

/** @returns ms of each round trip of this many bytes, one at a time */
export async function echoTimes({ socket }: BareNode, rounds: number, bytes: number): Promise<number[]> {
  const message = Buffer.alloc(bytes, 'x');
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const began = now();
    await new Promise<void>((resolve) => {
      let received = 0;
      const read = (chunk: Buffer) => {
        received += chunk.length;
        if (received < bytes) return;
        socket.off('data', read);
        resolve();
      };
      socket.on('data', read);
      socket.write(message);
    });
    times.push(now() - began);
  }
  return times;
}

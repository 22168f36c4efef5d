import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { tempDir } from '@wellspring/testing/temp-dir';
import { writePrograms } from '../runtime-files.ts';

/** Delays connections, as a busy machine does. */
const SLOW_CONNECT = `const { prototype } = require('node:net').Socket;
const { connect } = prototype;
prototype.connect = function (...args) { setTimeout(() => connect.apply(this, args), 200); return this; };`;

test('a process that is stopped as soon as it is ready has a complete connection to the relay', async () => {
  await using directory = await tempDir();
  const [path, slow] = [join(directory.path, 's'), join(directory.path, 'slow.cjs')];
  await writeFile(slow, SLOW_CONNECT);
  const { child: program, network } = await writePrograms(join(directory.path, 'programs'));
  let received = 0;
  const relay = createServer((socket) => {
    socket
      .on('error', () => {})
      .on('data', ({ length }) => {
        received += length;
      });
  }).listen(path);
  await once(relay, 'listening');
  const child = spawn(process.execPath, ['-r', slow, `--require=${network}`, program, path], {
    stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
    env: {},
  });
  try {
    await once(child.stdio[3] as Readable, 'data');
    child.kill('SIGSTOP');
    await eventually(() => received > 0);
    expect(received).toBeGreaterThan(0);
  } finally {
    child.kill('SIGKILL');
    relay.close();
    await Promise.all([once(child, 'exit'), once(relay, 'close')]);
  }
});

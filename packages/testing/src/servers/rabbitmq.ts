import { mkdir, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { freePort } from '../free-port.ts';
import { tempDir } from '../temp-dir.ts';
import type { TestServer } from './server.ts';
import { startServer } from './start-server.ts';

/** The wrapper of the same name in /usr/sbin changes the user. */
const PROGRAM = '/usr/lib/rabbitmq/bin/rabbitmq-server';
/** It would fork its port mapper by itself, and that would outlive it. */
const SCRIPT = `epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 & exec ${PROGRAM}`;

/** A RabbitMQ of one's own. Durable queues and what they hold outlive `kill`. @throws Error with its output when it does not start */
export async function startRabbit(): Promise<TestServer> {
  const directory = await tempDir();
  const [port, distribution, mapper] = [await freePort(), await freePort(), await freePort()];
  const at = (name: string) => join(directory.path, name);
  await mkdir(at('log'));
  await writeFile(at('rabbitmq.conf'), `listeners.tcp.1 = 127.0.0.1:${port}\nlog.file.level = warning\n`);
  await writeFile(at('plugins'), '[].\n');
  await writeFile(at('.erlang.cookie'), 'wellspring', { mode: 0o600 });
  const env = {
    HOME: directory.path,
    RABBITMQ_NODENAME: `t${port}@localhost`,
    RABBITMQ_DIST_PORT: `${distribution}`,
    ERL_EPMD_PORT: `${mapper}`,
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_MNESIA_BASE: at('db'),
    RABBITMQ_LOG_BASE: at('log'),
    // Without its ending.
    RABBITMQ_CONFIG_FILE: at('rabbitmq'),
    RABBITMQ_ENABLED_PLUGINS_FILE: at('plugins'),
    RABBITMQ_PID_FILE: at('pid'),
  };
  return startServer({
    name: 'RabbitMQ',
    url: `amqp://guest:guest@127.0.0.1:${port}`,
    command: () => ['/bin/sh', '-c', SCRIPT],
    directory,
    env,
    answers: () => answers(port),
    patience: { ms: 60_000, every: 50 },
  });
}

/** Whether what listens on the port greets as AMQP does: it listens when everything else has been started. */
function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('AMQP\0\0\x09\x01'));
    socket.setTimeout(1_000, () => socket.destroy());
    socket.once('data', (data: Buffer) => {
      // The frame of a method on the channel 0.
      resolve(data[0] === 1 && data.readUInt16BE(1) === 0);
      socket.destroy();
    });
    socket.once('error', () => {});
    socket.once('close', () => resolve(false));
  });
}

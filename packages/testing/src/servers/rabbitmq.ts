import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { eventually } from '../eventually.ts';
import { freePort } from '../free-port.ts';
import { tempDir } from '../temp-dir.ts';
import { startGroup } from './process-group.ts';
import type { TestServer } from './server.ts';
import { startServer } from './start-server.ts';

/** Not the wrappers in /usr/sbin, which change the user. */
const PROGRAMS = '/usr/lib/rabbitmq/bin';
const LIST = ['list_queues', '-q', '--no-table-headers', 'name', 'messages_ready', 'messages_unacknowledged'];
const MORE = ['consumers', 'leader', 'online'];
const run = promisify(execFile);
const START_CHECKS = { ms: 60_000, every: 50 };

export interface RabbitCluster extends TestServer {
  /**
   * SIGKILL to the next node in turn. In a cluster it first waits until every queue has a majority without that node,
   * as operators do.
   */
  kill(): Promise<void>;
  /**
   * One tab-separated line per queue: name, ready messages, unacknowledged messages, consumers, leader, online members.
   */
  queues(): Promise<string>;
  /** Raises an alarm, in which the broker blocks publishers; or ends it. */
  alarm(isRaised: boolean): Promise<void>;
  /** Suspends a queue of a single node, as if it had no leader: messages are neither confirmed nor refused; or resumes it. */
  suspend(queue: string, isSuspended: boolean): Promise<void>;
}

interface Node extends TestServer {
  /** Runs a RabbitMQ tool against this node. @throws Error with its output when it fails */
  tell(program: string, ...args: string[]): Promise<string>;
}

/**
 * Starts a separate RabbitMQ node or cluster. Durable queues survive the `kill` of a minority of nodes, or of a single
 * node.
 * @throws Error with its output when it does not start
 */
export async function startRabbit({ nodes: count = 1 } = {}): Promise<RabbitCluster> {
  const mapper = await freePort();
  const ports: number[] = [];
  while (ports.length < count) ports.push(await freePort());
  // The node with the first name forms the cluster.
  ports.sort((a, b) => (`${a}` < `${b}` ? -1 : 1));
  await using stack = new AsyncDisposableStack();
  const directory = await tempDir();
  stack.defer(() => directory.remove());
  // Otherwise a node forks its port mapper, which would outlive it.
  const epmd = startGroup(['epmd', '-port', `${mapper}`, '-address', '127.0.0.1'], {
    directory: directory.path,
  });
  stack.defer(() => epmd.kill());
  const nodes: Node[] = [];
  // In sequence: later nodes join the first.
  for (const port of ports) {
    const node = await startNode(port, { mapper, ports });
    stack.defer(() => node.dispose());
    nodes.push(node);
  }
  const all = stack.move();
  let turn = 0;
  return {
    name: 'RabbitMQ',
    url: `amqp://guest:guest@${ports.map((port) => `127.0.0.1:${port}`).join()}`,
    async kill() {
      const node = nodes[turn]!;
      if (count > 1) {
        await eventually(
          () => node.tell('rabbitmq-diagnostics', 'check_if_node_is_quorum_critical').then(() => true),
          START_CHECKS,
        );
      }
      await node.kill();
    },
    async start() {
      await nodes[turn]!.start();
      turn = (turn + 1) % nodes.length;
    },
    freeze: () => nodes[turn]!.freeze(),
    resume: () => nodes[turn]!.resume(),
    async alarm(isRaised) {
      const limit = isRaised ? '0' : '0.4';
      for (const node of nodes) await node.tell('rabbitmqctl', 'set_vm_memory_high_watermark', limit);
    },
    async suspend(queue, isSuspended) {
      const call = isSuspended ? 'suspend' : 'resume';
      await nodes[0]!.tell('rabbitmqctl', 'eval', `sys:${call}('%2F_${queue}').`);
    },
    async queues() {
      const told = (n: number): Promise<string> =>
        nodes[n]!.tell('rabbitmqctl', ...LIST, ...MORE).catch((error: unknown) => {
          if (n + 1 === nodes.length) throw error;
          return told(n + 1);
        });
      return told(0);
    },
    dispose: () => all.disposeAsync(),
  };
}

async function startNode(
  port: number,
  { mapper, ports }: { mapper: number; ports: readonly number[] },
): Promise<Node> {
  const directory = await tempDir();
  const distribution = await freePort();
  const at = (name: string) => join(directory.path, name);
  const nameOf = (one: number) => `t${one}@localhost`;
  await mkdir(at('log'));
  const config = [
    `listeners.tcp.1 = 127.0.0.1:${port}`,
    'log.file.level = warning',
    ...(ports.length > 1
      ? [
          'cluster_partition_handling = pause_minority',
          'cluster_formation.peer_discovery_backend = classic_config',
          'cluster_formation.randomized_startup_delay_range.min = 0',
          'cluster_formation.randomized_startup_delay_range.max = 1',
          ...ports.map((one, n) => `cluster_formation.classic_config.nodes.${n + 1} = ${nameOf(one)}`),
        ]
      : []),
  ];
  await writeFile(at('rabbitmq.conf'), `${config.join('\n')}\n`);
  await writeFile(at('plugins'), '[].\n');
  await writeFile(at('.erlang.cookie'), 'wellspring', { mode: 0o600 });
  const env = {
    HOME: directory.path,
    RABBITMQ_NODENAME: nameOf(port),
    RABBITMQ_DIST_PORT: `${distribution}`,
    ERL_EPMD_PORT: `${mapper}`,
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '+sbwt none +sbwtdcpu none +sbwtdio none',
    RABBITMQ_MNESIA_BASE: at('db'),
    RABBITMQ_LOG_BASE: at('log'),
    // Without its ending.
    RABBITMQ_CONFIG_FILE: at('rabbitmq'),
    RABBITMQ_ENABLED_PLUGINS_FILE: at('plugins'),
    RABBITMQ_PID_FILE: at('pid'),
  };
  const server = await startServer({
    name: 'RabbitMQ',
    url: `amqp://guest:guest@127.0.0.1:${port}`,
    command: [join(PROGRAMS, 'rabbitmq-server')],
    directory,
    env,
    answers: () => answers(port),
    checks: START_CHECKS,
  });
  return {
    ...server,
    async tell(program, ...args) {
      const { stdout } = await run(join(PROGRAMS, program), args, {
        env: { PATH: process.env.PATH, ...env },
      });
      return stdout;
    },
  };
}

/** Whether the port speaks AMQP; the listener starts last. */
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

import { ChildProcess, spawn } from 'node:child_process';
import { expect, test } from '@jest/globals';
import { noMetrics } from '@wellspring/core/metrics';
import { eventually } from '@wellspring/testing/eventually';
import { listLog } from '@wellspring/testing/list-log';
import { type EgressOptions, startEgress } from './relay-process.ts';

const failure = (code: string) => Object.assign(new Error(`spawn ${code}`), { code });

test('a relay that cannot be started for lack of memory or files is started later', async () => {
  const { log, lines } = listLog();
  const users: (number | undefined)[] = [];
  const starts: NonNullable<EgressOptions['spawnProcess']>[] = [
    () => {
      throw failure('ENOMEM');
    },
    () => {
      // As Node.js does for EMFILE: the process has no streams.
      const child = new ChildProcess();
      process.nextTick(() => child.emit('error', failure('EMFILE')));
      return child;
    },
    (node) => spawn(node, ['-e', 'process.stdin.resume()'], { stdio: ['pipe', 'pipe', 'pipe'] }),
  ];
  const egress = startEgress({
    node: process.execPath,
    program: '',
    config: {} as EgressOptions['config'],
    log,
    metrics: noMetrics,
    spawnProcess(node, args, options) {
      users.push(options.uid);
      return starts[users.length - 1]!(node, args, options);
    },
  });
  await eventually(() => users.length === 3);
  await egress.dispose();
  expect(lines).toEqual(['egress.relay_ended', 'egress.relay_ended']);
  expect(new Set(users).size).toBe(1);
});

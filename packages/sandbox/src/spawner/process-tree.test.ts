import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { descendants, isAlive } from '../processes.fixture.ts';
import { TIERS } from '../sandbox.fixture.ts';
import { killTree } from './process-tree.ts';

const ROOT = ['--ro-bind', '/usr', '/usr', '--ro-bind', '/lib', '/lib', '--ro-bind-try', '/lib64', '/lib64'];
const ARGS = [
  ...['--unshare-user', '--unshare-pid', '--as-pid-1', '--die-with-parent', '--new-session'],
  ...[...ROOT, '--', '/usr/bin/sleep', '1000'],
];

(TIERS.includes('bubblewrap') ? test : test.skip)(
  'a bubblewrap that is killed at any time during its start leaves no process and closes its pipes',
  async () => {
    for (let start = 0; start < 100; start += 1) {
      const child = spawn('bwrap', ARGS, { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
      const closed = once(child, 'close');
      // The start takes a few milliseconds.
      await delay((start % 20) / 2);
      const seen = descendants(child.pid!);
      killTree(child);
      await closed;
      await eventually(() => seen.every((pid) => !isAlive(pid)));
    }
  },
);

test('a process is killed with its descendants', async () => {
  const child = spawn('sh', ['-c', 'sh -c "sleep 1000 & wait" & wait'], { stdio: 'ignore' });
  await eventually(() => descendants(child.pid!).length === 2);
  const tree = descendants(child.pid!);
  const ended = once(child, 'exit');
  killTree(child);
  await ended;
  await eventually(() => tree.every((pid) => !isAlive(pid)));
  expect(child.signalCode).toBe('SIGKILL');
});

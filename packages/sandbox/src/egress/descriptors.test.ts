import { spawn } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { noMetrics } from '@wellspring/core/metrics';
import { eventually } from '@wellspring/testing/eventually';
import { forSuite } from '@wellspring/testing/lifetimes';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createReadableFiles } from '../readable-files.ts';
import { writePrograms } from '../runtime-files.ts';
import { reduceTotals } from './descriptors.ts';
import { EGRESS_LIMITS } from './limits.ts';
import { echo, isServed, NO_PLATFORM, openRelay, serve } from './relay.fixture.ts';
import type { createRelay } from './relay.ts';
import { startEgress } from './relay-process.ts';
import { createLineReader } from './wire.ts';

const OPEN_FILES = 256;

/** The program of the relay, and a Node.js that has few descriptors, which every user may read. */
async function openPrograms() {
  const directory = await tempDir();
  const { relay } = await writePrograms(directory.path);
  const node = join(directory.path, 'node-with-few-descriptors');
  const real = createReadableFiles(directory.path).provide(process.execPath);
  await writeFile(node, `#!/bin/sh\nulimit -n ${OPEN_FILES}\nexec '${real}' "$@"\n`);
  await chmod(node, 0o755);
  return { relay, node, [Symbol.asyncDispose]: directory.remove };
}
const programs = forSuite(openPrograms);

/** A relay in a process with few descriptors. */
const startRelay: typeof createRelay = (config, report) => {
  const child = spawn(programs.node, [programs.relay], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdout.on(
    'data',
    createLineReader(1e6, (line) => report(JSON.parse(line))),
  );
  const order = (one: object) => void child.stdin.write(`${JSON.stringify(one)}\n`);
  order(config);
  return { order, close: () => void child.stdin.end() };
};

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

describe('a relay with few descriptors', () => {
  test('serves other owners while one takes all it gets', async () => {
    await using server = await serve(echo);
    await using relay = await openRelay({ start: startRelay });
    const sandboxes = Array.from({ length: 4 }, (_, n) => `a${n}`);
    for (const sandbox of sandboxes) await relay.client(sandbox, 'attacker');
    let open = 0;
    for (const path of Array.from({ length: 100 }, () => sandboxes.map(relay.path)).flat()) {
      const socket = connect({ path, allowHalfOpen: true }).on('error', () => {});
      sockets.push(socket.resume());
      socket.on('connect', () => {
        open += 1;
      });
      socket.on('end', () => {
        open -= 1;
      });
    }
    const { totalSockets } = reduceTotals(EGRESS_LIMITS, OPEN_FILES)!;
    // One owner may have half of them, each sandbox one for its channel.
    const half = Math.ceil(totalSockets / 2) - sandboxes.length;
    await eventually(() => sockets.every(({ connecting }) => !connecting) && open === half);
    await isServed(await relay.client('b', 'other'), server.port);
  });

  test('says so in the log', async () => {
    const lines: object[] = [];
    const egress = startEgress({
      node: programs.node,
      program: programs.relay,
      config: { allowNetworks: [], platform: NO_PLATFORM },
      log: { ...silentLog, info: (fields, event) => void lines.push({ event, ...fields }) },
      metrics: noMetrics,
    });
    await eventually(() => lines.length > 0);
    await egress.dispose();
    expect(lines).toEqual([{ event: 'egress.few_descriptors', ...reduceTotals(EGRESS_LIMITS, OPEN_FILES) }]);
  });
});

test.each([100, 256, 1024, 4096, 20_000])('the totals fit into %d descriptors', (openFiles) => {
  const few = reduceTotals(EGRESS_LIMITS, openFiles)!;
  const { totalConnections, totalDials, totalSockets } = few;
  expect(totalConnections + totalDials * (EGRESS_LIMITS.addresses - 1) + totalSockets).toBeLessThan(
    openFiles,
  );
  expect(Math.min(totalConnections, totalDials, totalSockets)).toBeGreaterThanOrEqual(2);
});

test('the totals stay if the descriptors are enough', () => {
  expect(reduceTotals(EGRESS_LIMITS, 65_536)).toBeUndefined();
});

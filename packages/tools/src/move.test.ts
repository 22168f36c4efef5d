import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { noMetrics } from '@wellspring/core/metrics';
import { readConfig } from '@wellspring/runtime/config';
import type { Ports } from '@wellspring/runtime/deps';
import { MOVED, MOVING, openEmbedded } from '@wellspring/runtime/infra-embedded';
import { openMemory } from '@wellspring/runtime/memory';
import { openRootKey } from '@wellspring/runtime/root-key';
import { refuseUnfinishedMove } from '@wellspring/runtime/unfinished-move';
import { installation } from '@wellspring/store/collections/installation';
import { sources } from '@wellspring/store/collections/sources';
import { users } from '@wellspring/store/collections/users';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { sourceRow, userRow } from '@wellspring/testing/rows';
import { tempDir } from '@wellspring/testing/temp-dir';
import { moveData } from './move.ts';

const dir = forEachTest(tempDir);
const elsewhere = forEachTest(tempDir);

function open(dataDir: string) {
  const config = readConfig({ env: { WELLSPRING_DATA_DIR: dataDir } });
  const memory = openMemory(config, noMetrics);
  return openEmbedded(config, { clock: systemClock, log: silentLog, metrics: noMetrics, memory });
}
/** Moves between two data directories; the adapters of the servers pass the same conformance suites. */
async function move(say: (text: string) => void = () => {}, secretKeys: string[] = []) {
  const [from, to] = [open(dir.path), open(elsewhere.path)];
  try {
    await moveData(dir.path, from, to, { secretKeys, clock: systemClock, say });
  } finally {
    await from.close();
    await to.close();
  }
}
async function change(dataDir: string, work: (ports: ReturnType<typeof open>) => Promise<unknown>) {
  const ports = open(dataDir);
  await work(ports).finally(() => ports.close());
}
const sourceIds = async () => {
  let ids: string[] = [];
  await change(elsewhere.path, async ({ store }) => {
    ids = (await store.collection(sources).list()).map(({ id }) => id);
  });
  return ids;
};
const first = sourceRow();
const fill = () =>
  change(dir.path, async ({ store }) => {
    await store.collection(users).insert(userRow());
    await store.collection(sources).insert(first);
  });
const interrupt = () =>
  move((text) => {
    if (text.startsWith('files')) throw new Error('interrupted');
  });

test('the root keys have to be those of the data, also after a rotation', async () => {
  const [old, renewed] = ['old', 'new'].map((name) => `${name} root key of thirty-two characters`);
  const env = { WELLSPRING_DATA_DIR: dir.path, WELLSPRING_SECRET_KEY: renewed! };
  await fill();
  // As a rotation leaves it.
  writeFileSync(join(dir.path, 'secret.key'), old!);
  await change(dir.path, ({ store }) => openRootKey(store, readConfig({ env })));
  await expect(move(undefined, [old!])).rejects.toThrow(
    'WELLSPRING_SECRET_KEY is not the root key of the data',
  );
  await move(undefined, [renewed!]);
  expect(await sourceIds()).toEqual([first.id]);
});

test('an interrupted move is completed when it is repeated', async () => {
  await fill();
  await expect(interrupt()).rejects.toThrow('interrupted');
  await move();
  expect(await sourceIds()).toEqual([first.id]);
  expect([MOVING, MOVED].map((mark) => existsSync(join(dir.path, mark)))).toEqual([false, true]);
});

test.each([
  ['an interrupted', MOVING, interrupt],
  ['a completed', MOVED, () => move()],
])(
  'a move to the target of %s one is refused if the platform ran meanwhile',
  async (_which, mark, before) => {
    await fill();
    await before().catch(() => {});
    // As the refused start says.
    rmSync(join(dir.path, mark));
    await change(dir.path, ({ store }) => store.collection(sources).remove(first.id));
    await expect(move()).rejects.toThrow('The target is not empty');
    await expect(move()).rejects.toThrow('The target is not empty');
  },
);

test.each([
  [
    'the root key of another installation',
    ({ store }: Ports) => store.collection(installation).insert({ id: 'root_key', sealed: 'by another key' }),
  ],
  ['a source', ({ store }: Ports) => store.collection(sources).insert(sourceRow())],
])('a move to servers with %s, but without users, is refused', async (_what, insert) => {
  await fill();
  await change(elsewhere.path, insert);
  await expect(move()).rejects.toThrow('The target is not empty');
});

test('a platform on the target is refused until an interrupted move is complete', async () => {
  await fill();
  await expect(interrupt()).rejects.toThrow('interrupted');
  const start = () => change(elsewhere.path, ({ store }) => refuseUnfinishedMove(store));
  await expect(start()).rejects.toThrow('A move to these servers is in progress');
  await move();
  await start();
});

test('a moved job is flagged as redelivered: it may have been handled before the platform ended', async () => {
  const job = { key: 'dc_1', payload: JSON.stringify({ v: 1, type: 'emitted' }) };
  await change(dir.path, ({ queue }) => queue.publish('emitted', job));
  await move();
  await change(elsewhere.path, async ({ queue }) => {
    const { promise: moved, resolve } = Promise.withResolvers<string>();
    const stop = new AbortController();
    const ended = queue.consume('emitted', async ([{ payload }]) => resolve(payload), {
      batch: 1,
      signal: stop.signal,
    });
    expect(JSON.parse(await moved)).toEqual({ v: 1, type: 'emitted', redelivered: true });
    stop.abort();
    await ended;
  });
});

import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { newSecret } from '@wellspring/core/ids';
import { silentLog } from '@wellspring/core/log';
import { openMongo } from '@wellspring/mongodb/client';
import { createMongoStore } from '@wellspring/store/mongodb';
import { eventually } from '@wellspring/testing/eventually';
import { type Network, openNetwork } from '@wellspring/testing/network';
import { startMongo } from '@wellspring/testing/servers/mongodb';
import { startRabbit } from '@wellspring/testing/servers/rabbitmq';
import type { TestServer } from '@wellspring/testing/servers/server';
import { withPrograms } from '@wellspring/testing/servers/servers';
import { type Handler, LeaseLost } from '../port.ts';
import { overflow } from './collections.ts';
import { startProcess } from './process.fixture.ts';

const RUNS = 3_000;
/** Runs that the first process may commit before it is cut off: many are left for the other one. */
const BEFORE_CUT = 500;
const KEYS = ['slow0', 'slow1', 'slow2'];
const LEASE_MS = 2_000;
/** Of a job that takes until another process has it. */
const LONG = 'long';

/** Commits of all processes, fenced by epoch; redelivered runs are looked up, as the runner does. */
function createCommits() {
  const committed = new Map<string, string[]>(KEYS.map((key) => [key, []]));
  const epochs = new Map<string, number>();
  const twice: string[] = [];
  const by = new Map<string, number>();
  /** Effects of the long job, which no epoch fences: the names of the processes. */
  const effects: string[] = [];
  const cutOff = Promise.withResolvers<void>();
  const count = () => [...committed.values()].reduce((sum, all) => sum + all.length, 0);
  return {
    cutOff,
    count,
    committed,
    twice,
    by,
    effects,
    handlerOf:
      (name: string): Handler =>
      async (jobs, _, assertHeld) => {
        while (jobs[0].key === LONG) {
          assertHeld();
          effects.push(name);
          if (name === 'other') return;
          await pause(25);
        }
        await pause(25);
        if (name === 'cut' && count() >= BEFORE_CUT) await cutOff.promise;
        for (const { key, payload, epoch, redelivered } of jobs) {
          if (epoch < (epochs.get(key) ?? 0)) throw new LeaseLost('A later lease has committed.');
          epochs.set(key, epoch);
          const own = committed.get(key)!;
          const isKnown = own.includes(payload);
          if (isKnown && redelivered) continue;
          if (isKnown) twice.push(`${key} ${payload} by ${name}`);
          own.push(payload);
          by.set(name, (by.get(name) ?? 0) + 1);
        }
      },
  };
}

await withPrograms(['rabbitmq', 'mongodb'], () => {
  let rabbit: TestServer;
  let mongo: TestServer;
  const stack = new AsyncDisposableStack();
  let ending: (() => Promise<unknown>)[] = [];

  beforeAll(async () => {
    [rabbit, mongo] = await Promise.all([startRabbit(), startMongo()]);
  }, 60_000);
  afterEach(async () => {
    for (const end of ending.reverse()) await end();
    ending = [];
  });
  afterAll(async () => {
    await stack.disposeAsync();
    await rabbit?.dispose();
    await mongo?.dispose();
  });

  /** Two consuming processes; the connections of the first one can be cut. */
  async function install() {
    const [toRabbit, toMongo] = [await openNetwork(rabbit.url), await openNetwork(mongo.url)];
    for (const one of [toRabbit, toMongo]) stack.use(one);
    const [database, prefix] = [`test-${newSecret()}`, `t${newSecret()}.`];
    const commits = createCommits();
    async function start(name: string, amqp: string, mongodb: string) {
      const opened = await openMongo({ url: mongodb, database, log: silentLog });
      const store = createMongoStore(opened, { clock: { now: Date.now, sleep: (ms) => pause(ms) } });
      const process = await startProcess({
        amqp,
        store,
        prefix,
        partitions: 1,
        renewMs: 200,
        leaseMs: LEASE_MS,
      });
      const stop = new AbortController();
      const consume = () => {
        const ended = process.queue.consume('runs', commits.handlerOf(name), {
          batch: 2,
          signal: stop.signal,
        });
        ending.push(async () => {
          stop.abort();
          commits.cutOff.resolve();
          await ended;
          await process.close();
          await store.close();
          await opened.close();
        });
      };
      return { process, store, consume };
    }
    // Without it, the driver connects to the address that the server gives.
    const direct = new URL(toMongo.url);
    direct.searchParams.delete('replicaSet');
    direct.searchParams.set('directConnection', 'true');
    const cut = await start('cut', toRabbit.url, direct.href);
    cut.consume();
    const rows = cut.store.collection(overflow);
    await cut.process.queue.publish('runs', { key: LONG, payload: '' });
    await cut.process.queue.publishMany(
      'runs',
      Array.from({ length: RUNS }, (_, n) => ({ key: KEYS[n % KEYS.length]!, payload: `${n}` })),
    );
    await eventually(async () => (await rows.count()) > 300, { ms: 20_000, every: 50 });
    const other = await start('other', rabbit.url, mongo.url);
    return { commits, toRabbit, toMongo, cut, other, rows: other.store.collection(overflow) };
  }
  type Installation = Awaited<ReturnType<typeof install>>;

  async function checkCut({ commits, other, rows }: Installation, network: Network): Promise<void> {
    network.silence();
    commits.cutOff.resolve();
    const before = commits.by.get('cut')!;
    other.consume();
    await eventually(() => commits.by.get('other')! > 50, { ms: 30_000, every: 20 });
    // The cut process has stopped.
    const byCut = commits.by.get('cut')!;
    expect(byCut).toBeGreaterThanOrEqual(before);
    const byOther = commits.by.get('other')!;
    await eventually(() => commits.by.get('other')! > byOther + 100, { ms: 30_000, every: 20 });
    expect(commits.by.get('cut')).toBe(byCut);
    await eventually(() => commits.effects.includes('other'), { ms: 30_000, every: 20 });
    network.heal();
    network.cut();
    await eventually(() => commits.count() >= RUNS, { ms: 60_000, every: 50 });
    await eventually(async () => (await rows.count()) === 0, { ms: 20_000, every: 50 });
    expect(commits.effects.slice(commits.effects.indexOf('other'))).not.toContain('cut');
    expect(commits.twice).toEqual([]);
    for (const all of commits.committed.values()) {
      expect(all).toEqual(all.toSorted((a, b) => Number(a) - Number(b)));
    }
  }

  test('a process cut off from MongoDB stops, another one takes its overflow, and nothing is committed twice or out of order', async () => {
    const installation = await install();
    await checkCut(installation, installation.toMongo);
  }, 120_000);

  test('a process cut off from RabbitMQ gives its partitions up, and nothing is committed twice or out of order', async () => {
    const installation = await install();
    await checkCut(installation, installation.toRabbit);
  }, 120_000);
});

import { beforeEach, describe, expect, test } from '@jest/globals';
import type { ReplayMessage } from '@wellspring/contract/messages';
import { eventSortKey } from '@wellspring/core/event-id';
import { Unavailable } from '@wellspring/core/unavailable';
import { events } from '@wellspring/store/collections/events';
import { users } from '@wellspring/store/collections/users';
import { deliveries } from '@wellspring/store/collections/webhooks';
import { workflows } from '@wellspring/store/collections/workflows';
import { numbers } from '@wellspring/testing/numbers';
import { eventRow, OWNER, userRow } from '@wellspring/testing/rows';
import type { Answer } from '@wellspring/testing/webhook-sink';
import { eventsOf, until, usePlatform } from './platform.fixture.ts';
import { mailServer, useSends } from './sends/sends.fixture.ts';

const t = usePlatform();
const { send, emit } = useSends(t);
const MANY = 400;
/** Attempts of an emitter in progress at once, and events in a page of a replay. */
const [WINDOW, PAGE] = [128, 64];
/** Attempts in progress at once to a webhook that answers, and the health of one. */
const PERMITS = 8;
const ANSWERING = { failures: 0, tried_at: 1 };

/** Calls of the handler. */
let calls: number;
let isHeld: boolean;
/** Called when the messages are redelivered, with the lease. */
let again: () => unknown;

beforeEach(() => {
  [calls, isHeld, again] = [0, true, () => {}];
  const { consume } = t.queue;
  const assertHeld = () => {
    if (!isHeld) throw new Unavailable('Another process has the partition.');
  };
  t.queue.consume = (queue, handler, options) => {
    if (queue !== 'emitted') return consume(queue, handler, options);
    return consume(
      queue,
      async (jobs, next) => {
        calls += 1;
        if (calls > 1) {
          await again();
          isHeld = true;
        }
        await handler(jobs, next, assertHeld);
      },
      options,
    );
  };
});

/** First attempts last until the test ends this time: a slow machine makes none of them a row. @returns ends it */
function holdTimeouts(): () => void {
  const pending = new Set<() => void>();
  t.options.timeout = (onTimeout) => {
    pending.add(onTimeout);
    return () => pending.delete(onTimeout);
  };
  return () => {
    for (const onTimeout of pending) onTimeout();
    pending.clear();
  };
}

/** Loses the lease after the first jobs that are published to this queue. */
function loseAfterJobs(of: string) {
  const { publishMany } = t.queue;
  t.queue.publishMany = async (queue, jobs) => {
    await publishMany(queue, jobs);
    if (queue === of) isHeld = calls > 1;
  };
}

test('a former owner begins no further delivery, and the next one attempts only those without a row', async () => {
  holdTimeouts();
  let before = 0;
  const { emitter, sink } = await t.subscribed((_, n) => {
    if (n === 50) isHeld = false;
    return 200;
  }, ANSWERING);
  again = () => {
    before = sink.requests.length;
  };
  t.start();
  await t.emit(emitter, eventsOf(MANY));
  await t.untilStatus('delivered', MANY);
  expect(before).toBeGreaterThanOrEqual(50);
  expect(before).toBeLessThanOrEqual(50 + WINDOW);
  expect(sink.requests).toHaveLength(MANY);
}, 30_000);

/** A receiver that answers the first requests when the test says so. */
async function subscribedWaiting() {
  const open: ((answer: Answer) => void)[] = [];
  const subscribed = await t.subscribed(
    (_, n) => (n > PERMITS ? 200 : new Promise((resolve) => open.push(resolve))),
    ANSWERING,
  );
  return { ...subscribed, open };
}

test('a former owner sends none of the deliveries that wait for a permit', async () => {
  holdTimeouts();
  const waiting = 20;
  let before = 0;
  const { emitter, sink, open } = await subscribedWaiting();
  again = () => {
    before = sink.requests.length;
  };
  t.start();
  await t.emit(emitter, eventsOf(PERMITS + waiting));
  await sink.received(PERMITS);
  isHeld = false;
  for (const answer of open) answer({ status: 200 });
  await t.untilStatus('delivered', PERMITS + waiting);
  expect(before).toBe(PERMITS);
  expect(sink.requests).toHaveLength(PERMITS + waiting);
});

test('messages are given back when all deliveries that were begun have rows, so that none is sent twice', async () => {
  const endTimeouts = holdTimeouts();
  let counts: number[] = [];
  const { emitter, sink, open } = await subscribedWaiting();
  again = async () => {
    counts = [sink.requests.length, (await t.deliveries()).length];
    for (const answer of open) answer({ status: 200 });
  };
  t.start();
  await t.emit(emitter, eventsOf(MANY));
  await sink.received(PERMITS);
  isHeld = false;
  // The next delivery would begin; the others become rows after a second.
  open[0]!({ status: 200 });
  await t.untilStatus('delivered');
  expect(calls).toBe(1);
  endTimeouts();
  await t.untilStatus('delivered', MANY);
  expect(counts).toEqual([PERMITS, PERMITS]);
  expect(sink.requests).toHaveLength(MANY);
}, 30_000);

describe('a former owner makes no request of a workflow when it lost the lease', () => {
  /** Loses the lease when a row of this kind was read for the first time. */
  const loseAtRead = (rows: { get(id: string): Promise<unknown> }) => {
    const { get } = rows;
    rows.get = async (id) => {
      const row = await get(id);
      isHeld = calls > 1;
      return row;
    };
  };

  test('while the workflow was read', async () => {
    let before = 0;
    const sink = await t.receive();
    loseAtRead(t.store.collection(workflows));
    again = () => {
      before = sink.requests.length;
    };
    t.start();
    await emit(send('http', { url: sink.url }));
    await t.untilStatus('delivered');
    expect([calls, before, sink.requests.length]).toEqual([2, 0, 1]);
  });

  test('while the recipient was read', async () => {
    let before = 0;
    await using server = await mailServer();
    await t.store.collection(users).insert(userRow());
    loseAtRead(t.store.collection(users));
    again = () => {
      before = server.mails.length;
    };
    t.start({ smtpUrl: server.url });
    await emit(send('email', { text: 'x' }));
    await t.untilStatus('delivered');
    expect([calls, before, server.mails.length]).toEqual([2, 0, 1]);
  });

  test('while the recipient was read and its row was written: that one is made later, once', async () => {
    await using server = await mailServer();
    await t.store.collection(users).insert(userRow());
    const [readers, rows] = [t.store.collection(users), t.store.collection(deliveries)];
    const [{ get }, { insertMany }] = [readers, rows];
    const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    readers.get = async (id) => {
      readers.get = get;
      // The attempt takes longer than a second.
      t.clock.advance(1_100);
      await begun.promise;
      isHeld = false;
      setImmediate(ended.resolve);
      throw new Unavailable(`No answer for ${id}`);
    };
    rows.insertMany = async (...args) => {
      begun.resolve();
      await ended.promise;
      return insertMany(...args);
    };
    t.start({ smtpUrl: server.url });
    await emit(send('email', { text: 'x' }));
    await until(t.deliveries, ({ length }) => length === 1);
    t.clock.advance(61_000);
    await t.untilStatus('delivered');
    expect([calls, server.mails.length]).toEqual([1, 1]);
  });

  test('while the rate was asked for, and stores none', async () => {
    let before = 0;
    await using server = await mailServer();
    await t.store.collection(users).insert(userRow());
    t.buckets.take = () => {
      isHeld = calls > 1;
      return calls > 1 ? 0 : 1;
    };
    again = async () => {
      before = (await t.deliveries()).length;
    };
    t.start({ smtpUrl: server.url });
    await emit(send('email', { text: 'x' }));
    await t.untilStatus('delivered');
    expect([calls, before, server.mails.length]).toEqual([2, 0, 1]);
  });
});

test('a former owner publishes no further runs', async () => {
  let before = 0;
  const [emitter, listener] = [await t.source(), await t.source()];
  await t.subscribe(emitter, listener);
  loseAfterJobs('runs');
  again = async () => {
    before = await t.queue.depth('runs');
  };
  t.start();
  await t.emit(emitter, eventsOf(MANY));
  await t.quiet();
  expect(calls).toBe(2);
  expect(before).toBeLessThan(MANY);
  expect(await t.queue.depth('runs')).toBe(before + MANY);
});

test('a former owner does not publish the rest of a replay', async () => {
  const { emitter, sink } = await t.subscribed(() => {
    isHeld = calls > 1;
    return 200;
  });
  const { publish } = t.queue;
  const replays: ReplayMessage[] = [];
  t.queue.publish = (queue, job) => {
    replays.push(JSON.parse(job.payload));
    return publish(queue, job);
  };
  const keyOf = (n: number) => eventSortKey({ ms: 1_700_000_000_000, n });
  // Of each page, one event has a listener.
  const rows = numbers(PAGE + 1).map((n) =>
    eventRow(emitter, keyOf(n), { name: n % PAGE === 0 ? '' : 'unheard' }),
  );
  await t.store.collection(events).insertMany(rows);
  const replay: ReplayMessage = {
    ...{ v: 1, type: 'replay', replay_id: 'replay-1', at: 1_700_000_100_000 },
    ...{ emitter_id: emitter, owner_id: OWNER, after: '', end: keyOf(PAGE) },
  };
  t.start();
  await t.queue.publish('emitted', { key: emitter, payload: JSON.stringify(replay) });
  await t.untilStatus('delivered', 2);
  await t.quiet();
  expect(sink.requests).toHaveLength(2);
  // The rest was published once, by the next owner.
  expect(replays).toEqual([replay, { ...replay, after: keyOf(PAGE - 1), redelivered: true }]);
});

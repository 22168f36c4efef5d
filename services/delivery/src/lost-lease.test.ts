import { beforeEach, expect, test } from '@jest/globals';
import type { ReplayMessage } from '@wellspring/contract/messages';
import { eventSortKey } from '@wellspring/core/event-id';
import { Unavailable } from '@wellspring/core/unavailable';
import { events } from '@wellspring/store/collections/events';
import { numbers } from '@wellspring/testing/numbers';
import { eventRow, OWNER } from '@wellspring/testing/rows';
import { eventsOf, usePlatform } from './platform.fixture.ts';

const t = usePlatform();
const MANY = 400;
/** Attempts of an emitter in progress at once, and events in a page of a replay. */
const [WINDOW, PAGE] = [128, 64];

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

/** Loses the lease after the first jobs that are published to this queue. */
function loseAfterJobs(of: string) {
  const { publishMany } = t.queue;
  t.queue.publishMany = async (queue, jobs) => {
    await publishMany(queue, jobs);
    if (queue === of) isHeld = calls > 1;
  };
}

test('a former owner begins no further delivery, and the next one attempts only those without a row', async () => {
  let before = 0;
  const { emitter, sink } = await t.subscribed(
    (_, n) => {
      if (n === 50) isHeld = false;
      return 200;
    },
    { failures: 0, tried_at: 1 },
  );
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

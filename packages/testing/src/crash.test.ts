import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createLoad, type Load, seededRandom } from './crash.ts';
import { eventually } from './eventually.ts';
import { type Platform, startPlatform } from './platform.ts';
import { type TempDir, tempDir } from './temp-dir.ts';
import { createWebhookSink, type WebhookSink } from './webhook-sink.ts';

/**
 * What a 2xx promised holds when the process is killed at any moment: SIGKILL under load, again and again, on the
 * same data. `CRASH_SEED` repeats a run, `CRASHES` makes it longer.
 */

const CRASHES = Number(process.env.CRASHES ?? 20);
const SEED = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000);
/** How many deliveries a kill may repeat: eight under way, and 56 whose outcome is being made durable. */
const REPEATED = 64;

let dir: TempDir;
let platform: Platform;
let sink: WebhookSink;

beforeAll(async () => {
  dir = await tempDir();
  sink = await createWebhookSink();
  platform = await startPlatform({ dataDir: dir.path, env: { WELLSPRING_RETAIN_EVENTS: '1000000' } });
});

afterAll(async () => {
  await platform?.end('SIGKILL');
  await sink?.close();
  await dir?.remove();
});

const SOURCES = {
  /** Emits what it gets. */
  plain: `export default {
    name: 'Plain',
    props: { http: '$.interface.http' },
    run(event) { this.$emit(event.body); },
  };`,
  /** Counts its emits: state and events have to agree. Every event is offered twice. */
  counting: `export default {
    name: 'Counting',
    dedupe: 'unique',
    props: { http: '$.interface.http', db: '$.service.db' },
    run(event) {
      const n = (this.db.get('n') ?? 0) + 1;
      this.db.set('n', n);
      for (let i = 0; i < 2; i++) this.$emit({ ...event.body, n }, { id: event.body.id });
    },
  };`,
  /** Listens to the plain one. */
  listening: `export default { name: 'Listening', run(event) { this.$emit(event); } };`,
};

interface Emitted {
  id: string;
  event: { id: string; n?: number };
}

/** What a source has emitted, oldest first: the stream from its beginning until all of these have come. */
async function emittedBy(sourceId: string, wanted: Iterable<string>): Promise<Emitted[]> {
  const open = new Set(wanted);
  const signal = AbortSignal.timeout(30_000);
  const stream = await platform.client.streamSource({ id: sourceId, last_event_id: '0-0' }, { signal });
  const events: Emitted[] = [];
  for await (const record of stream) {
    const emitted = record as Emitted;
    events.push(emitted);
    open.delete(emitted.event.id);
    if (open.size === 0) break;
  }
  return events;
}

const idsOf = (events: readonly Emitted[]) => events.map(({ event }) => event.id);
const repeated = (ids: readonly string[]) => ids.filter((id, index) => ids.indexOf(id) !== index);
const missing = (wanted: Iterable<string>, ids: readonly string[]) => {
  const there = new Set(ids);
  return [...wanted].filter((id) => !there.has(id));
};

/** Kills the process in the middle of work, and now and then while it starts; gives how often. */
async function crash(load: Load, random: () => number): Promise<number> {
  await load.acceptedMore(Math.floor(random() * 150));
  // Not a wait for something: the moment itself is what is drawn.
  await pause(random() * 20);
  await platform.end('SIGKILL');
  let kills = 1;
  for (; random() < 0.2; kills++) {
    platform.spawn();
    await pause(random() * 1500);
    await platform.end('SIGKILL');
  }
  platform.spawn();
  await platform.ready();
  return kills;
}

test(`what was accepted is emitted once and delivered, over ${CRASHES} crashes (seed ${SEED})`, async () => {
  const random = seededRandom(SEED);
  const { client } = platform;
  const webhook = await client.createWebhook({ url: sink.url });
  const create = async (code: string) => {
    const source = await client.createSource({ component_code: code });
    await client.createSubscription({ emitter_id: source.id, listener_id: webhook.id });
    const http = source.configured_props.http as { endpoint_url: string } | undefined;
    return { id: source.id, url: http?.endpoint_url ?? '' };
  };
  const plain = await create(SOURCES.plain);
  const counting = await create(SOURCES.counting);
  const listening = await create(SOURCES.listening);
  await client.createSubscription({ emitter_id: plain.id, listener_id: listening.id });

  const loads = [createLoad('p', plain.url, 8), createLoad('c', counting.url, 8)] as const;
  let kills = 0;
  for (let crashes = 0; crashes < CRASHES; crashes++) {
    kills += await crash(loads[crashes % 2]!, random);
  }
  await Promise.all(loads.map((load) => load.stop()));
  const [toPlain, toCounting] = loads;
  // Runs of a source are done in the order of arrival: after this one nothing of before is to come.
  for (const load of loads) await load.one();

  // Emitted exactly once: what was answered 2xx is there, and nothing is there twice.
  const fromPlain = await emittedBy(plain.id, toPlain.accepted);
  const fromCounting = await emittedBy(counting.id, toCounting.accepted);
  const fromListening = await emittedBy(listening.id, idsOf(fromPlain));
  for (const [load, events] of [
    [toPlain, fromPlain],
    [toCounting, fromCounting],
    [toPlain, fromListening],
  ] as const) {
    expect(missing(load.accepted, idsOf(events))).toEqual([]);
    expect(repeated(idsOf(events))).toEqual([]);
    expect(missing(idsOf(events), [...load.sent])).toEqual([]);
    expect(repeated(events.map(({ id }) => id))).toEqual([]);
  }
  // A listener has heard everything, once.
  expect(missing(idsOf(fromPlain), idsOf(fromListening))).toEqual([]);
  // Its database and its events were always kept together.
  expect(fromCounting.map(({ event }) => event.n)).toEqual(fromCounting.map((_, index) => index + 1));

  // Delivered at least once, under one webhook-id.
  const emitted = [fromPlain, fromCounting, fromListening].flat().length;
  const key = (emitter: unknown, id: unknown) => `${emitter} ${id}`;
  const wanted = (
    [
      [plain, fromPlain],
      [counting, fromCounting],
      [listening, fromListening],
    ] as const
  ).flatMap(([source, events]) => events.map(({ id }) => key(source.id, id)));
  const delivered = () =>
    sink.requests.map(({ headers }) =>
      key(headers['x-wellspring-emitter-id'], headers['x-wellspring-event-id']),
    );
  await eventually(
    () => {
      expect(missing(wanted, delivered())).toEqual([]);
    },
    { ms: 90_000, every: 250 },
  );
  expect(missing(delivered(), wanted)).toEqual([]);
  expect(new Set(sink.requests.map(({ headers }) => headers['webhook-id'])).size).toBe(emitted);
  const twice = sink.requests.length - emitted;
  expect(twice).toBeLessThanOrEqual(kills * REPEATED);

  const accepted = toPlain.accepted.size + toCounting.accepted.size;
  const unanswered = toPlain.sent.size + toCounting.sent.size - accepted;
  console.info(
    `${kills} kills: ${accepted} accepted, ${unanswered} unanswered, ${emitted} emitted, ${twice} delivered twice`,
  );
  // The crashes did hit work under way.
  expect(unanswered).toBeGreaterThan(CRASHES / 2);

  // Nothing is stuck, nothing was given up.
  expect(await platform.operator.operatorListDeadLetters()).toEqual([]);
  for (const { id } of [plain, counting, listening]) {
    expect((await client.listSourceErrors({ id })).data).toEqual([]);
  }
  await eventually(async () => {
    const { data } = await client.listWebhookDeliveries({ id: webhook.id, limit: 100 });
    expect(data.filter(({ status }) => status !== 'delivered')).toEqual([]);
  });
}, 180_000);

import { createServer, type Socket } from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
import { deliveries } from '@wellspring/store/collections/webhooks';
import { numbers } from '@wellspring/testing/numbers';
import { event, eventsOf, until, usePlatform } from './platform.fixture.ts';

const ends: (() => void)[] = [];
// Before the platform stops, which waits for its requests.
afterEach(() => {
  for (const end of ends.splice(0)) end();
});
const t = usePlatform();

/** A receiver that accepts connections and never answers. */
async function hangingServer() {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.resume();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ends.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port}`, sockets };
}

const owner = (n: number) => `u_000000000${n}`;

test('300 hanging receivers delay neither a receiver that answers nor a new one', async () => {
  const hanging = await hangingServer();
  // Some of them have the address of the one that answers.
  const answers = ({ path }: { path: string }) => (path === '/hang' ? 'hang' : 200);
  const [emitters, sound, fresh] = [new Map<string, string>(), await t.receive(answers), await t.receive()];
  for (let n = 0; n < 6; n++) emitters.set(owner(n), await t.source({ owner_id: owner(n) }));
  await Promise.all(
    numbers(300).map(async (n) => {
      const owner_id = owner(n % 6);
      // Half of them answered before.
      const health = n % 2 === 0 ? { failures: 0, tried_at: 1 } : {};
      const url = n % 3 === 0 ? `${sound.url}/hang` : hanging.url;
      const { id } = await t.webhook(url, { owner_id, ...health });
      await t.subscribe(emitters.get(owner_id)!, id, '', owner_id, owner_id);
    }),
  );
  const mine = owner(9);
  const emitter = await t.source({ owner_id: mine });
  const hook = async (url: string, name: string) => {
    const { id } = await t.webhook(url, { owner_id: mine });
    await t.subscribe(emitter, id, name, mine, mine);
    return id;
  };
  const hooks = [await hook(sound.url, ''), await hook(fresh.url, 'fresh')];
  t.start();
  const flood = async () => {
    await Promise.all([...emitters].map(([owner_id, id]) => t.emit(id, eventsOf(10), { owner_id })));
  };
  await flood();
  await until(
    async () => hanging.sockets.length,
    (count) => count >= 200,
  );
  t.clock.advance(1_100);
  // They are all rows now, and their messages are done.
  await t.quiet();
  await flood();
  const owned = { owner_id: mine };
  await Promise.all(numbers(50).map((n) => t.emit(emitter, [event(n), event(n, 'fresh')], owned)));
  // Not all rows: to read thousands of them in each turn holds up the service.
  await until(
    () => t.store.collection(deliveries).list({ where: { webhook_id: { in: hooks } } }),
    (found) => found.filter(({ status }) => status === 'delivered').length === 100,
  );
  const answered = sound.requests.filter(({ path }) => path !== '/hang');
  expect([answered.length, fresh.requests.length]).toEqual([50, 50]);
  const waiting = await t.store.collection(deliveries).count({ due_at: { lte: t.clock.now() } });
  expect(waiting).toBeGreaterThan(4_000);
}, 60_000);

test('a message with many deliveries holds up no other emitter, and is stored once', async () => {
  const [many, sink, other] = [1_500, await t.receive(), await t.receive()];
  const [big, small] = [await t.source(), await t.source()];
  await Promise.all(
    numbers(many).map(async (n) => {
      const { id } = await t.webhook(`${sink.url}/${n}`, { failures: 0, tried_at: 1 });
      await t.subscribe(big, id);
    }),
  );
  await t.subscribe(small, (await t.webhook(other.url)).id);
  t.start();
  await t.emit(big, eventsOf(100));
  await sink.received(1);
  for (let n = 0; n < 10; n++) {
    await t.emit(small, [event(n)]);
    await other.received(n + 1);
  }
  expect(sink.requests.length).toBeLessThan(many * 10);
  const rows = await t.deliveries();
  expect(rows.filter(({ status, payload }) => status === 'delivered' && payload !== '')).toEqual([]);
}, 60_000);

test('a webhook subscribed before an event receives it, however many events came before', async () => {
  const { emitter } = await t.subscribed();
  t.start();
  for (let n = 0; n < 20; n++) {
    const sink = await t.receive();
    const { id } = await t.webhook(sink.url);
    await t.subscribe(emitter, id);
    await t.emit(emitter, [event(n)]);
    expect((await sink.received(1))[0]!.text).toBe(String(n));
  }
});

/** Until the test ends, no delivery of this owner can be stored. */
function holdRows(owner_id: string): void {
  const over = Promise.withResolvers<void>();
  ends.push(over.resolve);
  const rows = t.store.collection(deliveries);
  const { insertMany } = rows;
  rows.insertMany = async (added) => {
    if (added[0]?.owner_id === owner_id) await over.promise;
    return insertMany(added);
  };
}

/** A source with a webhook of its own. */
async function emitterOf(owner_id: string, url: string): Promise<string> {
  const [emitter, hook] = [await t.source({ owner_id }), await t.webhook(url, { owner_id })];
  await t.subscribe(emitter, hook.id, '', owner_id, owner_id);
  return emitter;
}

test('an owner whose many emitters have deliveries that cannot be stored leaves memory for the events of others', async () => {
  const [hostile, mine] = [owner(1), owner(9)];
  const sink = await t.receive();
  holdRows(hostile);
  // Six of them fill the memory for messages that are being fanned out.
  const large = () => event('x'.repeat(5 * 1024 ** 2), 'unheard');
  for (let n = 0; n < 8; n++)
    await t.emit(await emitterOf(hostile, sink.url), [...eventsOf(200), large()], { owner_id: hostile });
  t.start();
  await sink.received(1);
  await t.emit(await emitterOf(mine, sink.url), [event('mine'), large()], { owner_id: mine });
  await sink.request(({ text }) => text === '"mine"');
});

test('attempts whose outcomes cannot be stored begin only as far as there is memory for their payloads', async () => {
  const [hostile, mine] = [owner(1), owner(9)];
  const [sink, other] = [await t.receive(), await t.receive()];
  holdRows(hostile);
  // An owner gets 16 MB of the memory for messages that are being fanned out.
  for (let n = 0; n < 40; n++)
    await t.emit(await emitterOf(hostile, sink.url), [event('x'.repeat(1024 ** 2))], { owner_id: hostile });
  t.start();
  await sink.received(14);
  const emitter = await emitterOf(mine, other.url);
  for (let n = 0; n < 10; n++) {
    await t.emit(emitter, [event(n)], { owner_id: mine });
    await other.received(n + 1);
  }
  expect(sink.requests.length).toBeLessThanOrEqual(16);
});

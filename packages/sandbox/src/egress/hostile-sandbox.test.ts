import { connect } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { echo, isServed, openRelay, serve, type TestRelay } from './relay.fixture.ts';
import { encodePreamble, OPERATION } from './wire.ts';

/** A connection of the sandbox `a` that sends something else than its client. */
function dial({ path }: TestRelay) {
  const socket = connect(path('a'));
  const closed = new Promise((resolve) => socket.on('error', () => {}).on('close', resolve));
  return { socket: socket.resume(), closed };
}

describe('a hostile sandbox', () => {
  test('is disconnected if it sends its preamble too slowly', async () => {
    await using server = await serve(echo);
    await using relay = await openRelay({ limits: { preambleMs: 3_000 } });
    const [, other] = [await relay.client('a'), await relay.client('b')];
    const { socket: slow, closed } = dial(relay);
    slow.write(Buffer.from([OPERATION.connect, 0, 0]));
    await isServed(other, server.port);
    await closed;
  });

  test.each([
    ['an unknown operation', Buffer.from([9, 0, 0])],
    ['garbage', Buffer.alloc(4096, 0xff)],
    [
      'a malformed host',
      encodePreamble({ operation: OPERATION.connect, channel: 7, id: 1, port: 80, host: 'a\r\nb' }),
    ],
    [
      'an unknown channel',
      encodePreamble({ operation: OPERATION.connect, channel: 99, id: 1, port: 80, host: '1.1.1.1' }),
    ],
  ])('is disconnected if it sends %s', async (_name, bytes) => {
    await using relay = await openRelay();
    await relay.client('a');
    const { socket, closed } = dial(relay);
    socket.write(bytes);
    await closed;
  });

  test.each([
    ['malformed JSON', 'x'],
    ['an empty question', '{"id":1}'],
    ['null', 'null'],
    ['a number out of range', '{"id":1e99,"lookup":"a"}'],
    ['a malformed name', '{"id":1,"lookup":"a b"}'],
    ['a long line', 'x'.repeat(5000)],
  ])('loses its channel if it sends %s', async (_name, line) => {
    await using relay = await openRelay();
    const { channel } = await relay.client('a');
    const ended = new Promise((resolve) => channel.on('end', resolve));
    channel.write(`${line}\n`);
    await ended;
  });

  test('does not block the network of others by ten thousand connections', async () => {
    await using server = await serve(echo);
    await using relay = await openRelay();
    const other = await relay.client('b');
    await relay.client('a');
    let over = 0;
    const flood = Array.from({ length: 10_000 }, async () => {
      const { socket, closed } = dial(relay);
      socket.end();
      await closed;
      over += 1;
    });
    await isServed(other, server.port);
    await Promise.all(flood);
    expect(over).toBe(10_000);
    await isServed(other, server.port);
    // The sandbox is served again after the flood.
    await eventually(async () => {
      const socket = connect(relay.path('a'));
      const isBack = await new Promise<boolean>((resolve) => {
        socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
      });
      socket.destroy();
      return isBack;
    });
  });

  test('causes three reports in a run, regardless of the number of its attempts', async () => {
    await using relay = await openRelay({ allowNetworks: [] });
    const client = await relay.client('a');
    for (let n = 0; n < 200; n += 1) await client.answerTo(client.connect('10.0.0.1', 80).id);
    relay.relay.order({ type: 'endRun', sandbox: 'a' });
    expect(relay.reports.map(({ type }) => type)).toEqual(['used', 'limit', 'traffic']);
  });

  test('gets a short report of hundreds of destinations', async () => {
    await using relay = await openRelay({
      allowNetworks: [],
      limits: { connectionsPerSecond: 1e6, connectionBurst: 1e6 },
    });
    const client = await relay.client('a');
    for (let n = 0; n < 200; n += 1) await client.dial(`10.0.0.${n}`, 80);
    relay.relay.order({ type: 'endRun', sandbox: 'a' });
    const report = relay.reports.find(({ type }) => type === 'traffic');
    const destinations = report?.type === 'traffic' ? report.destinations : [];
    expect(destinations).toHaveLength(65);
    expect(destinations.at(-1)).toMatchObject({ host: '*', refused: 136 });
  });
});

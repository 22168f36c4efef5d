import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach } from '@wellspring/testing/lifetimes';
import { withServers } from '@wellspring/testing/servers/servers';
import { openSubject } from './partitions.fixture.ts';

await withServers(['rabbitmq'], ({ rabbitmq }) => {
  const closing = closeAfterEach();

  test('a handler is told that its lease is not certain, or lost, also when its process has a new one', async () => {
    const { consume, receive, setCertain, retake } = closing(await openSubject(rabbitmq, 100));
    const asserts: (() => void)[] = [];
    const ends: (() => void)[] = [];
    consume(async (_, __, assertHeld) => {
      asserts.push(assertHeld);
      await new Promise<void>((resolve) => ends.push(resolve));
    });
    await receive('out', ['a']);
    await eventually(() => asserts.length === 1);
    expect(asserts[0]).not.toThrow();
    setCertain(false);
    expect(asserts[0]).toThrow(Unavailable);
    setCertain(true);
    expect(asserts[0]).not.toThrow();
    retake();
    expect(asserts[0]).toThrow(Unavailable);
    ends[0]!();
    await eventually(() => asserts.length === 2);
    expect(asserts[0]).toThrow(Unavailable);
    expect(asserts[1]).not.toThrow();
    ends[1]!();
  });

  test('a handler is told that its partition is being released, which waits for it', async () => {
    const { consume, receive, release } = closing(await openSubject(rabbitmq, 100));
    const [handed, end] = [Promise.withResolvers<() => void>(), Promise.withResolvers<void>()];
    consume(async (_, __, assertHeld) => {
      handed.resolve(assertHeld);
      await end.promise;
    });
    await receive('out', ['a']);
    const assertHeld = await handed.promise;
    const released = release();
    expect(assertHeld).toThrow(Unavailable);
    end.resolve();
    await released;
  });

  test('a consumer that stops releases its partitions before its last handler ends', async () => {
    const subject = closing(await openSubject(rabbitmq, 100));
    const [handed, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    subject.consume(async () => {
      handed.resolve();
      await end.promise;
    });
    await subject.receive('out', ['a']);
    await handed.promise;
    subject.stop();
    await subject.leaving;
    end.resolve();
  });
});

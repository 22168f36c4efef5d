import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { forEachTest } from '@wellspring/testing/lifetimes';
import type { PubSub } from './port.ts';

/** Conformance suite of the port, for every adapter. @param open returns a connected one */
export function pubsubConformance(name: string, open: () => Promise<PubSub>): void {
  describe(`pubsub: ${name}`, () => {
    const pubsub = forEachTest(open);

    /** Waits until subscriptions are active and earlier messages have arrived. */
    async function flush(topic = 'flush'): Promise<void> {
      const heard = new Set<string>();
      const end = pubsub.subscribe(topic, (message) => heard.add(message));
      await eventually(() => {
        pubsub.publish(topic, 'ready?');
        return heard.has('ready?');
      });
      pubsub.publish(topic, 'the last');
      await eventually(() => heard.has('the last'));
      end();
    }

    test('a listener receives the messages of its topic in order, and no others', async () => {
      const heard: string[] = [];
      pubsub.subscribe('a', (message) => heard.push(message));
      await flush('a');
      heard.length = 0;
      for (const message of ['1', 'é😀', '']) pubsub.publish('a', message);
      pubsub.publish('a');
      pubsub.publish('b', 'other');
      pubsub.publish('a/b', 'other');
      await eventually(() => heard.length === 4);
      await flush();
      expect(heard).toEqual(['1', 'é😀', '', '']);
    });

    test('every listener receives a message, once per subscription', async () => {
      let count = 0;
      const listener = () => {
        count += 1;
      };
      const ends = [pubsub.subscribe('a', listener), pubsub.subscribe('a', listener)];
      await flush('a');
      count = 0;
      pubsub.publish('a');
      await eventually(() => count === 2);
      ends[0]!();
      ends[0]!();
      pubsub.publish('a');
      await eventually(() => count === 3);
      await flush();
      expect(count).toBe(3);
    });

    test('an ended subscription receives nothing, not even messages in flight', async () => {
      const heard: string[] = [];
      const end = pubsub.subscribe('a', (message) => heard.push(message));
      await flush('a');
      heard.length = 0;
      pubsub.publish('a', 'on its way');
      end();
      pubsub.publish('a', 'later');
      await flush();
      expect(heard).toEqual([]);
    });

    test('listeners run asynchronously to the publisher', async () => {
      const order: string[] = [];
      pubsub.subscribe('a', () => order.push('heard'));
      await flush('a');
      order.length = 0;
      pubsub.publish('a');
      order.push('published');
      await Promise.resolve();
      order.push('went on');
      await eventually(() => order.length === 3);
      expect(order).toEqual(['published', 'went on', 'heard']);
    });

    test('a listener that throws or removes others affects neither the publisher nor the other listeners', async () => {
      const heard: string[] = [];
      pubsub.subscribe('a', () => {
        throw new Error('mine alone');
      });
      pubsub.subscribe('a', () => endSecond());
      const endSecond = pubsub.subscribe('a', () => heard.push('ended'));
      pubsub.subscribe('a', () => heard.push('last'));
      await flush('a');
      heard.length = 0;
      pubsub.publish('a');
      await eventually(() => heard.length > 0);
      expect(heard).toEqual(['last']);
    });

    test('publishing to a topic without listeners has no effect', async () => {
      pubsub.publish('nobody', 'x');
      await pubsub.ping();
    });
  });
}

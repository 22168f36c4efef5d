import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import type { PubSub } from './port.ts';

/** The guarantees of the port, for any adapter. `open` gives one that is connected. */
export function pubsubConformance(name: string, open: () => Promise<PubSub>): void {
  describe(`pubsub: ${name}`, () => {
    let pubsub: PubSub;
    beforeEach(async () => {
      pubsub = await open();
    });
    afterEach(() => pubsub.close());

    /** The subscriptions are in force, and what was published before has arrived. */
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

    test('whoever listens hears what is published on the topic, in order, and nothing else', async () => {
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

    test('everyone who listens hears it, and the same listener as often as it subscribed', async () => {
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

    test('after the end of a subscription nothing comes, not even what was on its way', async () => {
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

    test('a listener runs after the publisher has gone on', async () => {
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

    test('a listener that throws, or ends others, harms neither the publisher nor the rest', async () => {
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

    test('publishing where nobody listens is nothing', async () => {
      pubsub.publish('nobody', 'x');
      await pubsub.ping();
    });
  });
}

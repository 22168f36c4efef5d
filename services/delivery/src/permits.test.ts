import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createPermits } from './permits.ts';

const LIMITS = { perWebhook: 3, total: 8, bytes: 1000, queued: 4, queuedInAll: 10 };

describe('permits', () => {
  test('a webhook takes its limit, then waits in memory, then is parked', () => {
    const permits = createPermits<number>({ ...LIMITS, perWebhook: 2, queued: 1 });
    expect([1, 2, 3, 4].map((n) => permits.offer('wh_a', 1, n, 0))).toEqual([
      'start',
      'start',
      'wait',
      'park',
    ]);
    expect(permits.next()).toBeUndefined();
    permits.release('wh_a', 1);
    expect(permits.next()).toBe(3);
    expect(permits.next()).toBeUndefined();
  });

  test('room is limited by the queue of the webhook and by the memory for all queues', () => {
    const permits = createPermits<number>({ ...LIMITS, perWebhook: 1, queued: 3, queuedInAll: 4 });
    expect(permits.room('wh_a')).toBe(3);
    for (const n of [1, 2, 3]) permits.offer('wh_a', 1, n, 0);
    expect([permits.room('wh_a'), permits.room('wh_b')]).toEqual([1, 2]);
    permits.setParked('wh_b', true);
    expect(permits.room('wh_b')).toBe(0);
  });

  test('parked deliveries precede later ones, but not claimed ones', () => {
    const permits = createPermits<number>(LIMITS);
    permits.setParked('wh_a', true);
    expect(permits.offer('wh_a', 1, 1, 0)).toBe('park');
    expect(permits.turn()).toEqual({ webhookId: 'wh_a', count: 3 });
    expect(permits.offer('wh_a', 1, 1, 0, true)).toBe('start');
    permits.setParked('wh_a', false);
    expect(permits.hasTurn).toBe(false);
    expect(permits.offer('wh_a', 1, 2, 0)).toBe('start');
  });

  test('webhooks with parked deliveries take turns', () => {
    const permits = createPermits<number>(LIMITS);
    for (const id of ['wh_a', 'wh_b', 'wh_c']) permits.setParked(id, true);
    const turns = Array.from({ length: 6 }, () => permits.turn()?.webhookId);
    expect(turns).toEqual(['wh_a', 'wh_b', 'wh_c', 'wh_a', 'wh_b', 'wh_c']);
  });

  test('claims of parked deliveries double, and happen only when none wait in memory', () => {
    const permits = createPermits<number>({ ...LIMITS, perWebhook: 2, queued: 100, queuedInAll: 100 });
    permits.setParked('wh_a', true);
    const claimed = (expected: number) => {
      expect(permits.hasTurn).toBe(true);
      expect(permits.turn()).toEqual({ webhookId: 'wh_a', count: expected });
      for (let n = 0; n < expected; n++) permits.offer('wh_a', 1, n, 0, true);
      expect([permits.hasTurn, permits.turn()]).toEqual([false, undefined]);
    };
    const finishAll = () => {
      while (permits.taken > 0) {
        permits.release('wh_a', 1);
        while (permits.next() !== undefined);
      }
    };
    for (const count of [2, 4, 8, 16, 32, 32]) {
      claimed(count);
      finishAll();
    }
    claimed(32);
    permits.expire(1);
    finishAll();
    claimed(2);
  });

  test('a body larger than the budget starts when nothing else is in progress', () => {
    const permits = createPermits<number>(LIMITS);
    expect(permits.offer('wh_a', 5000, 1, 0)).toBe('start');
    expect(permits.offer('wh_b', 1, 2, 0)).toBe('wait');
    permits.release('wh_a', 5000);
    expect(permits.next()).toBe(2);
  });

  test('only expired deliveries leave the queue', () => {
    const permits = createPermits<number>({ ...LIMITS, perWebhook: 1 });
    permits.offer('wh_a', 1, 0, 0);
    permits.offer('wh_a', 1, 1, 10);
    permits.offer('wh_a', 1, 2, 20);
    expect(permits.expire(20)).toEqual([1]);
    expect(permits.waiting).toBe(1);
    permits.release('wh_a', 1);
    expect(permits.next()).toBe(2);
  });

  test('releasing a permit that was not taken is an error', () => {
    expect(() => createPermits(LIMITS).release('wh_a', 1)).toThrow('wh_a holds no permit');
  });

  const webhookId = fc.constantFrom('wh_a', 'wh_b', 'wh_c', 'wh_d', 'wh_e');
  const step = fc.oneof(
    fc.record({ do: fc.constant('offer' as const), webhookId, bytes: fc.integer({ min: 0, max: 600 }) }),
    fc.record({ do: fc.constant('release' as const), pick: fc.nat() }),
    fc.record({ do: fc.constant('expire' as const), ago: fc.nat(20) }),
    fc.record({ do: fc.constant('park' as const), webhookId, parked: fc.boolean() }),
  );

  test('in any history limits hold, nothing is lost or started twice, and each webhook keeps its order', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        interface Item {
          n: number;
          webhookId: string;
          bytes: number;
        }
        const permits = createPermits<Item>(LIMITS);
        const running: Item[] = [];
        const waiting = new Set<Item>();
        const lastStarted = new Map<string, number>();
        const start = (item: Item) => {
          running.push(item);
          expect(item.n).toBeGreaterThan(lastStarted.get(item.webhookId) ?? -1);
          lastStarted.set(item.webhookId, item.n);
        };
        const fill = () => {
          for (let item = permits.next(); item; item = permits.next()) {
            expect(waiting.delete(item)).toBe(true);
            start(item);
          }
        };
        steps.forEach((one, n) => {
          if (one.do === 'offer') {
            const item = { n, webhookId: one.webhookId, bytes: one.bytes };
            const offer = permits.offer(item.webhookId, item.bytes, item, n);
            if (offer === 'start') start(item);
            if (offer === 'wait') waiting.add(item);
          } else if (one.do === 'release' && running.length > 0) {
            const [item] = running.splice(one.pick % running.length, 1);
            permits.release(item!.webhookId, item!.bytes);
            fill();
          } else if (one.do === 'expire') {
            for (const item of permits.expire(n - one.ago)) expect(waiting.delete(item)).toBe(true);
          } else if (one.do === 'park') {
            permits.setParked(one.webhookId, one.parked);
          }
          expect(permits.taken).toBe(running.length);
          expect(permits.waiting).toBe(waiting.size);
          expect(running.length).toBeLessThanOrEqual(LIMITS.total);
          const bytes = running.reduce((sum, item) => sum + item.bytes, 0);
          expect(running.length === 1 || bytes <= LIMITS.bytes).toBe(true);
          for (const id of new Set(running.map((item) => item.webhookId))) {
            expect(running.filter((item) => item.webhookId === id).length).toBeLessThanOrEqual(
              LIMITS.perWebhook,
            );
          }
        });
        // Everything that waits starts in the end.
        while (running.length > 0) {
          const item = running.pop()!;
          permits.release(item.webhookId, item.bytes);
          fill();
        }
        expect(waiting.size).toBe(0);
      }),
    );
  });
});

import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createSlots } from './slots.ts';

const LIMITS = { perWebhook: 3, total: 8, bytes: 1000, line: 4, lines: 10 };

describe('slots', () => {
  test('a webhook holds its limit, then waits in memory, then is parked', () => {
    const slots = createSlots<number>({ ...LIMITS, perWebhook: 2, line: 1 });
    expect([1, 2, 3, 4].map((n) => slots.offer('wh_a', 1, n, 0))).toEqual(['start', 'start', 'wait', 'park']);
    expect(slots.next()).toBeUndefined();
    slots.release('wh_a', 1);
    expect(slots.next()).toBe(3);
    expect(slots.next()).toBeUndefined();
  });

  test('room is what the line of a webhook and the memory for all lines still take', () => {
    const slots = createSlots<number>({ ...LIMITS, perWebhook: 1, line: 3, lines: 4 });
    expect(slots.room('wh_a')).toBe(3);
    for (const n of [1, 2, 3]) slots.offer('wh_a', 1, n, 0);
    expect([slots.room('wh_a'), slots.room('wh_b')]).toEqual([1, 2]);
    slots.setParked('wh_b', true);
    expect(slots.room('wh_b')).toBe(0);
  });

  test('what is parked goes before what comes later, unless it is claimed', () => {
    const slots = createSlots<number>(LIMITS);
    slots.setParked('wh_a', true);
    expect(slots.offer('wh_a', 1, 1, 0)).toBe('park');
    expect(slots.turn()).toEqual({ webhookId: 'wh_a', count: 3 });
    expect(slots.offer('wh_a', 1, 1, 0, true)).toBe('start');
    slots.setParked('wh_a', false);
    expect(slots.anyTurn).toBe(false);
    expect(slots.offer('wh_a', 1, 2, 0)).toBe('start');
  });

  test('webhooks with parked deliveries take turns', () => {
    const slots = createSlots<number>(LIMITS);
    for (const id of ['wh_a', 'wh_b', 'wh_c']) slots.setParked(id, true);
    const turns = Array.from({ length: 6 }, () => slots.turn()?.webhookId);
    expect(turns).toEqual(['wh_a', 'wh_b', 'wh_c', 'wh_a', 'wh_b', 'wh_c']);
  });

  test('the more parked ones are claimed the quicker they go, and only when none wait in memory', () => {
    const slots = createSlots<number>({ ...LIMITS, perWebhook: 2, line: 100, lines: 100 });
    slots.setParked('wh_a', true);
    const claimed = (expected: number) => {
      expect(slots.anyTurn).toBe(true);
      expect(slots.turn()).toEqual({ webhookId: 'wh_a', count: expected });
      for (let n = 0; n < expected; n++) slots.offer('wh_a', 1, n, 0, true);
      expect([slots.anyTurn, slots.turn()]).toEqual([false, undefined]);
    };
    const finishAll = () => {
      while (slots.taken > 0) {
        slots.release('wh_a', 1);
        while (slots.next() !== undefined);
      }
    };
    for (const count of [2, 4, 8, 16, 32, 32]) {
      claimed(count);
      finishAll();
    }
    claimed(32);
    slots.expire(1);
    finishAll();
    claimed(2);
  });

  test('a body larger than the budget goes when nothing else is under way', () => {
    const slots = createSlots<number>(LIMITS);
    expect(slots.offer('wh_a', 5000, 1, 0)).toBe('start');
    expect(slots.offer('wh_b', 1, 2, 0)).toBe('wait');
    slots.release('wh_a', 5000);
    expect(slots.next()).toBe(2);
  });

  test('only what waited too long is taken out of the lines', () => {
    const slots = createSlots<number>({ ...LIMITS, perWebhook: 1 });
    slots.offer('wh_a', 1, 0, 0);
    slots.offer('wh_a', 1, 1, 10);
    slots.offer('wh_a', 1, 2, 20);
    expect(slots.expire(20)).toEqual([1]);
    expect(slots.waiting).toBe(1);
    slots.release('wh_a', 1);
    expect(slots.next()).toBe(2);
  });

  test('giving back what was not taken is an error', () => {
    expect(() => createSlots(LIMITS).release('wh_a', 1)).toThrow('no slot');
  });

  const webhookId = fc.constantFrom('wh_a', 'wh_b', 'wh_c', 'wh_d', 'wh_e');
  const step = fc.oneof(
    fc.record({ do: fc.constant('offer' as const), webhookId, bytes: fc.integer({ min: 0, max: 600 }) }),
    fc.record({ do: fc.constant('release' as const), pick: fc.nat() }),
    fc.record({ do: fc.constant('expire' as const), ago: fc.nat(20) }),
    fc.record({ do: fc.constant('park' as const), webhookId, parked: fc.boolean() }),
  );

  test('under any history limits hold, nothing is lost or started twice, and order within a webhook stays', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        interface Item {
          n: number;
          webhookId: string;
          bytes: number;
        }
        const slots = createSlots<Item>(LIMITS);
        const running: Item[] = [];
        const waiting = new Set<Item>();
        const lastStarted = new Map<string, number>();
        const start = (item: Item) => {
          running.push(item);
          expect(item.n).toBeGreaterThan(lastStarted.get(item.webhookId) ?? -1);
          lastStarted.set(item.webhookId, item.n);
        };
        const fill = () => {
          for (let item = slots.next(); item; item = slots.next()) {
            expect(waiting.delete(item)).toBe(true);
            start(item);
          }
        };
        steps.forEach((one, n) => {
          if (one.do === 'offer') {
            const item = { n, webhookId: one.webhookId, bytes: one.bytes };
            const offer = slots.offer(item.webhookId, item.bytes, item, n);
            if (offer === 'start') start(item);
            if (offer === 'wait') waiting.add(item);
          } else if (one.do === 'release' && running.length > 0) {
            const [item] = running.splice(one.pick % running.length, 1);
            slots.release(item!.webhookId, item!.bytes);
            fill();
          } else if (one.do === 'expire') {
            for (const item of slots.expire(n - one.ago)) expect(waiting.delete(item)).toBe(true);
          } else if (one.do === 'park') {
            slots.setParked(one.webhookId, one.parked);
          }
          expect(slots.taken).toBe(running.length);
          expect(slots.waiting).toBe(waiting.size);
          expect(running.length).toBeLessThanOrEqual(LIMITS.total);
          const bytes = running.reduce((sum, item) => sum + item.bytes, 0);
          expect(running.length === 1 || bytes <= LIMITS.bytes).toBe(true);
          for (const id of new Set(running.map((item) => item.webhookId))) {
            expect(running.filter((item) => item.webhookId === id).length).toBeLessThanOrEqual(
              LIMITS.perWebhook,
            );
          }
        });
        // However it went, everything that waits starts in the end.
        while (running.length > 0) {
          const item = running.pop()!;
          slots.release(item.webhookId, item.bytes);
          fill();
        }
        expect(waiting.size).toBe(0);
      }),
    );
  });
});

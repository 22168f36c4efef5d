import { describe, expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { newWebhookSecret, secretKey } from '@wellspring/core/webhook-signature';
import { deliveryRow } from '@wellspring/testing/rows';
import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import { bodyOf, headersOf } from './request.ts';

test('the body is the payload byte for byte, or an envelope around it', () => {
  fc.assert(
    fc.property(fc.json(), fc.string({ unit: 'binary' }), (payload, event_name) => {
      const row = deliveryRow({ payload, event_name });
      expect(bodyOf(row, {})).toBe(payload);
      const body = bodyOf(row, { payload_format: 'envelope' });
      expect(body.endsWith(`,"data":${payload}}`)).toBe(true);
      expect(JSON.parse(body)).toEqual({
        type: event_name === '' ? 'event' : event_name,
        timestamp: '2023-11-14T22:13:20.000Z',
        id: '1700000000000-0',
        emitter_id: 'dc_0000000000',
        data: JSON.parse(payload),
      });
    }),
  );
});

describe('the headers of an attempt', () => {
  test('any JSON body passes the Standard Webhooks verification, with the new and the old secret', () => {
    const [secret, old, other] = [newWebhookSecret(), newWebhookSecret(), newWebhookSecret()];
    const now = systemClock.now();
    fc.assert(
      fc.property(fc.json({ stringUnit: 'binary' }), (payload) => {
        const headers = headersOf(deliveryRow(), [secretKey(secret), secretKey(old)], now, payload);
        for (const one of [secret, old]) new Webhook(one).verify(payload, headers);
        expect(() => new Webhook(other).verify(payload, headers)).toThrow();
        expect(() => new Webhook(secret).verify(`${payload} `, headers)).toThrow();
      }),
    );
  });

  test('a secret has 32 random bytes', () => {
    const secrets = new Set(Array.from({ length: 100 }, newWebhookSecret));
    expect(secrets.size).toBe(100);
    for (const secret of secrets) {
      expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]+=*$/);
      expect(secretKey(secret)).toHaveLength(32);
    }
  });

  test('every event name is sent as percent-encoded UTF-8', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (name) => {
        const header = headersOf(deliveryRow({ event_name: name }), [], 0, '')['x-wellspring-event-name']!;
        expect(header).toMatch(/^(?:[!-$&-~]|%[0-9A-F]{2})*$/);
        expect(decodeURIComponent(header)).toBe(name.toWellFormed());
      }),
    );
  });

  test('include id, attempt and hops; a test delivery has no emitter and no event', () => {
    expect(
      headersOf(deliveryRow({ id: 'dlv_0000000000', attempts: 3, hop: 2 }), [], 1_700_000_000_999, ''),
    ).toMatchObject({
      'webhook-id': expect.stringMatching(/^msg_[0-9a-f]{32}$/),
      'webhook-timestamp': '1700000000',
      'x-wellspring-emitter-id': 'dc_0000000000',
      'x-wellspring-event-id': '1700000000000-0',
      'x-wellspring-delivery-attempt': '4',
      'x-wellspring-hop-count': '2',
    });
    const bare = headersOf(deliveryRow({ emitter_id: null, event_id: null }), [], 0, '');
    expect(Object.keys(bare)).not.toEqual(expect.arrayContaining(['x-wellspring-event-id']));
    expect(Object.keys(bare)).not.toEqual(expect.arrayContaining(['x-wellspring-emitter-id']));
  });
});

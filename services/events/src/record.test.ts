import { describe, expect, test } from '@jest/globals';
import { stringify } from '@wellspring/core/json-text';
import type { LogRow } from '@wellspring/store/collections/events';
import fc from 'fast-check';
import { withoutRange } from './delete-range.ts';
import { type EventRecord, frameOf, recordsOfLog, summaryOf } from './record.ts';

const record = (payload: string): EventRecord => ({
  sortKey: '000001700000000-000000000',
  id: '1700000000-0',
  indexedAtMs: 1_700_000_000,
  metadata: { emit_id: 'e', emitter_id: 'dc_0000000000', name: '', id: null, summary: null, ts: null },
  payload,
});

const json = fc.json({ stringUnit: 'binary' });

describe('a frame of a stream', () => {
  test('has one id and one data line with the payload byte for byte', () => {
    fc.assert(
      fc.property(json, (text) => {
        const payload = JSON.stringify(JSON.parse(text));
        const frame = frameOf(record(payload));
        expect(frame.split(/\r\n|\r|\n/)).toHaveLength(4);
        expect(frame.startsWith('id: 1700000000-0\ndata: {')).toBe(true);
        expect(frame.endsWith('}\n\n')).toBe(true);
        expect(frame).toContain(`"event":${payload},"metadata"`);
        const data = JSON.parse(frame.slice(frame.indexOf('data: ') + 6));
        expect(Object.keys(data)).toEqual(['id', 'indexed_at_ms', 'event', 'metadata']);
      }),
    );
  });
});

describe('an event of a list', () => {
  test('is complete up to 1 KB, beyond it the start of its JSON text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 2000 }), (text) => {
        const payload = JSON.stringify(text);
        const { event, metadata } = JSON.parse(stringify(summaryOf(record(payload), false)));
        if (Buffer.byteLength(payload) <= 1024) {
          expect(event).toBe(text);
          expect(metadata).not.toHaveProperty('truncated');
        } else {
          expect(payload.startsWith(event)).toBe(true);
          const bytes = Buffer.byteLength(event);
          expect(bytes <= 1024 && bytes > 1020).toBe(true);
          expect(metadata).toHaveProperty('truncated', true);
        }
        expect(JSON.parse(stringify(summaryOf(record(payload), true))).event).toBe(text);
      }),
    );
  });
});

describe('logs of a run', () => {
  const row = (count: number): LogRow => ({
    id: 'dc_0000000000/000001700000000-000000005',
    emitter_id: 'dc_0000000000',
    sort_key: '000001700000000-000000005',
    run_id: 'run_1',
    indexed_at_ms: 1_700_000_000,
    count,
    records: JSON.stringify(Array.from({ length: count }, (_, n) => ({ n }))),
  });

  test('are consecutive events', () => {
    const records = recordsOfLog(row(3));
    expect(records.map(({ id }) => id)).toEqual(['1700000000-5', '1700000000-6', '1700000000-7']);
    expect(records.map(({ payload }) => payload)).toEqual(['{"n":0}', '{"n":1}', '{"n":2}']);
    expect(new Set(records.map(({ metadata }) => metadata.emit_id)).size).toBe(3);
  });

  test('without a range are exactly the others, with unchanged ids', () => {
    const key = fc.integer({ min: 0, max: 20 }).map((n) => `000001700000000-${String(n).padStart(9, '0')}`);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10 }), key, key, (count, start, end) => {
        fc.pre(start <= end);
        const all = recordsOfLog(row(count));
        const left = withoutRange(row(count), { start, end }).flatMap(recordsOfLog);
        const outside = all.filter(({ sortKey }) => sortKey < start || sortKey > end);
        expect(left.map(({ id, payload }) => [id, payload])).toEqual(
          outside.map(({ id, payload }) => [id, payload]),
        );
      }),
    );
  });
});

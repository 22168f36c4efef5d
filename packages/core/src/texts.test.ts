import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { decodeCursor, encodeCursor } from './cursor.ts';
import { emitterPatterns, isGlob } from './glob.ts';
import { isId, newId, newRunId, newSecret } from './ids.ts';
import { slugAttempt, slugOf } from './slug.ts';
import { truncateUtf8 } from './truncate.ts';

const unicode = (maxLength: number) => fc.string({ unit: 'binary', maxLength });

describe('slug', () => {
  test('lower-case letters and digits of any script, joined by hyphens', () => {
    expect(slugOf('New  Issue (GitHub)!')).toBe('new-issue-github');
    expect(slugOf('Émile Größe 東京 2')).toBe('émile-größe-東京-2');
    expect(slugAttempt('x', 0) + slugAttempt('x', 1)).toBe('xx-1');
  });

  test('of any name: never empty, only allowed characters, no hyphen at an end, its own slug', () => {
    const name = fc.oneof(
      unicode(300),
      fc.constantFrom('', '---', '🎉', `${'a'.repeat(199)}𠀀𠀀`, `${'b'.repeat(199)} c`),
    );
    fc.assert(
      fc.property(name, (text) => {
        const slug = slugOf(text);
        expect(slug).toMatch(/^[\p{Ll}\p{Lo}\p{N}_]+(-[\p{Ll}\p{Lo}\p{N}_]+)*$/u);
        expect(slugOf(slug)).toBe(slug);
      }),
      { numRuns: 500 },
    );
  });
});

describe('cursor', () => {
  const idText = fc.stringMatching(
    /^((dc|wh|sub|dlv)_[0-9A-Za-z]{10}|run_[0-9A-Za-z]{18}|run_[0-9a-f]{32}-[0-9]{1,4})$/,
  );
  const eventId = fc.tuple(fc.nat(), fc.nat({ max: 999 })).map(([ms, n]) => `${ms}-${n}`);

  test('gives back the id, with padding too', () => {
    fc.assert(
      fc.property(idText, (id) => {
        expect(encodeCursor(id)).not.toContain('=');
        expect(decodeCursor(encodeCursor(id), 'after')).toBe(id);
        expect(decodeCursor(Buffer.from(id).toString('base64'), 'before')).toBe(id);
      }),
    );
  });

  test('of an event is its id, raw or encoded', () => {
    fc.assert(
      fc.property(eventId, (id) => {
        expect(decodeCursor(id, 'after', 'event')).toBe(id);
        expect(decodeCursor(encodeCursor(id), 'after', 'event')).toBe(id);
      }),
    );
  });

  test('a malformed cursor is a 400 that names the parameter', () => {
    const refused = expect.objectContaining({ status: 400, param: 'before' });
    const attempt = (text: string, kind?: 'event') => {
      try {
        return decodeCursor(text, 'before', kind);
      } catch (problem) {
        return problem;
      }
    };
    for (const text of ['', '!', 'undefined', encodeCursor('x'), encodeCursor('1-1'), '1-1', 'ZGNf===']) {
      expect(attempt(text)).toEqual(refused);
    }
    expect(attempt(encodeCursor('dc_0000000000'), 'event')).toEqual(refused);
    fc.assert(
      fc.property(unicode(40), (text) => {
        const decoded = attempt(text);
        if (typeof decoded !== 'string') expect(decoded).toEqual(refused);
      }),
    );
  });
});

describe('truncate', () => {
  test('gives the longest beginning that fits and cuts no character', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), fc.nat({ max: 80 }), (text, bytes) => {
        const cut = truncateUtf8(text, bytes);
        expect(text.startsWith(cut)).toBe(true);
        expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(bytes);
        expect(cut.isWellFormed()).toBe(true);
        const [next = ''] = text.slice(cut.length);
        if (next) expect(Buffer.byteLength(cut + next)).toBeGreaterThan(bytes);
      }),
      { numRuns: 500 },
    );
  });
});

describe('ids', () => {
  test('sort by age as texts, even if the clock is set back, and are unique', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 200 }), (steps) => {
        let now = Date.UTC(2030, 0);
        const ids = steps.map((step) => {
          now += step - 1;
          return newId('dlv', now);
        });
        expect([...ids].sort()).toEqual(ids);
        expect(new Set(ids).size).toBe(ids.length);
        for (const id of ids) expect(isId('dlv', id)).toBe(true);
      }),
    );
  });

  test('of runs sort by age too, and differ from those that another process makes with the same time and counter', () => {
    const ids = Array.from({ length: 1_000 }, newRunId);
    expect([...ids].sort()).toEqual(ids);
    for (const id of ids) expect(id).toMatch(/^run_[0-9A-Za-z]{18}$/);
    const random = ids.map((id) => id.slice('run_'.length + 10));
    expect(new Set(random).size).toBe(ids.length);
  });

  test('isId refuses other prefixes and malformed ids', () => {
    for (const text of ['dc_000000000', 'dc_00000000000', 'd_0000000000', 'dc_00000000-0', '', null, 7]) {
      expect(isId('dc', text)).toBe(false);
    }
  });

  test('secrets have at least 128 bits, in lower case', () => {
    const secrets = new Set(Array.from({ length: 100 }, newSecret));
    expect(secrets.size).toBe(100);
    for (const secret of secrets) expect(secret).toMatch(/^[a-z2-7]{26,}$/);
  });
});

describe('glob', () => {
  test('an emitter is found under its id, under all of its kind and under its owner', () => {
    expect(emitterPatterns('dc_1', 'u_1')).toEqual(['dc_1', 'dc_*', 'u_1']);
    expect(emitterPatterns('p_1', 'o_1')).toEqual(['p_1', 'p_*', 'o_1']);
    expect(['dc_*', 'p_*', '*', 'dc_1*', 'wh_*'].filter(isGlob)).toEqual(['dc_*', 'p_*']);
  });
});

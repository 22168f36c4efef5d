import { describe, expect, test } from '@jest/globals';
import { LIMITS } from '@wellspring/contract/limits';
import { truncateUtf8 } from '@wellspring/core/truncate';
import fc from 'fast-check';
import { allMasks, createMask, mayBeCut, noMask } from './mask-secrets.ts';

const SECRET = 'sk_live "quoted"/äö+ 42';

describe('a secret', () => {
  test.each([
    ['plain', SECRET],
    ['in JSON', JSON.stringify({ key: SECRET }).slice(8, -2)],
    ['in a URL', encodeURIComponent(SECRET)],
    ['in a form', new URLSearchParams([['', SECRET]]).toString().slice(1)],
    ['in Base64', Buffer.from(SECRET).toString('base64')],
    ['in Base64 for URLs', Buffer.from(SECRET).toString('base64url')],
    ['in hexadecimal', Buffer.from(SECRET).toString('hex')],
  ])('%s is masked within a larger text', (_how, printed) => {
    const masked = createMask(['something else', SECRET])(`before ${printed}, after ${printed}`);
    expect(masked).toMatch(/^before \*{8}=*, after \*{8}=*$/);
  });

  test.each(['base64', 'base64url'] as const)(
    'within a value in %s, such as user:secret, is masked but for the characters that it shares with its neighbours',
    (form) => {
      const part = fc.uint8Array({ maxLength: 8 });
      const secret = fc.string({
        minLength: 5,
        maxLength: 20,
        unit: fc.constantFrom('a', '1', '?', '~', 'é'),
      });
      fc.assert(
        fc.property(part, secret, part, (before, text, after) => {
          const printed = Buffer.concat([before, Buffer.from(text), after]).toString(form);
          const [start, end, ...more] = createMask([text])(`Basic ${printed}`).split('********');
          expect(start!.length).toBeLessThanOrEqual(6 + Math.ceil((before.length * 8) / 6));
          const shown = end!.replace(/=+$/, '').length;
          expect(shown).toBeLessThanOrEqual(1 + Math.ceil((after.length * 8) / 6));
          expect(more).toEqual([]);
        }),
      );
    },
  );

  test('of four characters is masked in Base64 as a whole, not where a few characters are equal', () => {
    const mask = createMask(['abcd']);
    expect(mask(`${btoa('abcd')} ${btoa('abcd').slice(0, 5)} ${btoa('xabcd').slice(2, 6)}`)).toBe(
      `********== ${btoa('abcd').slice(0, 5)} ${btoa('xabcd').slice(2, 6)}`,
    );
  });

  test('of several lines is masked line by line', () => {
    const key = '-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASC\n-----END KEY-----\n';
    const printed = `[\n  '-----BEGIN KEY-----\\n' +\n 'MIIEvQIBADANBgkqhkiG9w0B\\n' + 'AQEFAASC\\n' ]`;
    expect(createMask([key])(printed)).toBe(`[\n  '********\\n' +\n '********\\n' + '********\\n' ]`);
    expect(createMask([key])(`x${key}y`)).toBe('x********y');
  });

  test('with fewer than four characters is not masked, with four it is', () => {
    expect(createMask(['abc'])('abc')).toBe('abc');
    expect(createMask(['abcd', ''])('abcde')).toBe('********e');
  });

  test('that contains, starts or overlaps another one is masked with it', () => {
    const mask = createMask(['1234', 'abcd1234', 'abcd1234efgh', '34xyzw']);
    expect(mask('-abcd1234efgh-')).toBe('-********-');
    expect(mask('-abcd1234-')).toBe('-********-');
    expect(mask('-abcd1234xyzw-')).toBe('-********-');
    expect(mask('1234.1234')).toBe('********.********');
  });
});

const numbered = (count: number, begin = 'sk_live_') =>
  Array.from({ length: count }, (_, n) => `${begin}${10_000 + n}`);

test('a thousand secrets with one beginning are masked', () => {
  expect(createMask(numbered(1000))('uses sk_live_10999, other')).toBe('uses ********, other');
});

test.each([
  ['1000 secrets', numbered(1001)],
  ['1000 lines', [numbered(1001).join('\n')]],
  ['512 KB', numbered(10, 'x'.repeat(60_000))],
])('with more than %s, whole texts are hidden', (_limit, secrets) => {
  expect(createMask(secrets)('nothing of it')).toMatch(/^\(not shown: /);
});

test('a text without secrets is not changed', () => {
  expect(createMask([SECRET])('nothing of it')).toBe('nothing of it');
  expect(createMask([])).toBe(noMask);
});

test('in any text all secrets are masked and nothing else', () => {
  const anySecret = fc.string({
    minLength: 4,
    maxLength: 12,
    unit: fc.constantFrom('a', 'b', '1', '"', 'é'),
  });
  fc.assert(
    fc.property(
      fc.array(anySecret, { minLength: 1, maxLength: 5 }),
      fc.array(fc.oneof(fc.nat({ max: 4 }), fc.string({ unit: fc.constantFrom('a', 'b', '.', ' ') })), {
        maxLength: 12,
      }),
      (secrets, parts) => {
        const text = parts.map((part) => (typeof part === 'string' ? part : (secrets[part] ?? ''))).join('');
        const masked = createMask(secrets)(text);
        for (const secret of secrets) expect(masked).not.toContain(secret);
        if (!secrets.some((secret) => text.includes(secret) || text.includes(btoa(encodeURI(secret))))) {
          expect(masked.replaceAll('*', '')).toBe(masked);
        }
      },
    ),
  );
});

test('in a text that is cut anywhere, no beginning of a secret of four characters remains', () => {
  const secret = fc.string({
    minLength: 5,
    maxLength: 40,
    unit: fc.constantFrom('a', 'b', '1', '"', 'é', '😀'),
  });
  fc.assert(
    fc.property(
      fc.array(secret, { minLength: 1, maxLength: 3 }),
      fc.string(),
      fc.nat(),
      (secrets, before, at) => {
        const mask = createMask(secrets);
        const [first = ''] = secrets;
        const printed = [first, JSON.stringify(first).slice(1, -1), encodeURIComponent(first)];
        for (const form of printed) {
          const length = 4 + (at % (form.length - 4));
          const masked = mask(before + form.slice(0, length), true);
          for (let shown = 4; shown <= length; shown += 1)
            expect(masked.endsWith(form.slice(0, shown))).toBe(false);
        }
      },
    ),
  );
});

test.each(['characters', 'bytes'])(
  'a text of any content that was cut at a limit of %s may be cut',
  (unit) => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', minLength: 1 }),
        fc.integer({ min: 4, max: 60 }),
        (part, limit) => {
          const text = part.repeat(limit);
          expect(mayBeCut(unit === 'bytes' ? truncateUtf8(text, limit) : text.slice(0, limit), limit)).toBe(
            true,
          );
        },
      ),
    );
    expect(mayBeCut('x'.repeat(LIMITS.logLine - 10))).toBe(false);
  },
);

test('the end of a complete text is not masked', () => {
  const mask = createMask(['https://example.com/secret']);
  expect(mask('connect to https://example.com')).toBe('connect to https://example.com');
  expect(mask('connect to https://example.com', true)).toBe('connect to ********');
});

test('values crafted to be slow hide the whole text instead of blocking the process', () => {
  const secrets = Array.from({ length: 50 }, (_, n) => `${'a'.repeat(10_000)}${n}`);
  expect(createMask(secrets)('a'.repeat(16_000))).toMatch(/^\(not shown/);
});

test('a short text takes no more comparisons than a thousand secrets with one beginning need', () => {
  const mask = createMask(numbered(1000, 'aaaab'));
  expect(mask('aaaa')).toBe('aaaa');
  expect(mask('aaaaaaaa')).toMatch(/^\(not shown/);
});

test('the masks of many steps compare no more than one', () => {
  const mask = createMask(numbered(100, 'aaaab'));
  expect(allMasks([mask, mask])('aaaaaaaa')).toBe('aaaaaaaa');
  expect(allMasks(Array.from({ length: 100 }, () => mask))('aaaaaaaa')).toMatch(/^\(not shown/);
});

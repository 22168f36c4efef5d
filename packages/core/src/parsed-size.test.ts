import { execFileSync } from 'node:child_process';
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { parsedBytes, parsedSize } from './parsed-size.ts';

const listOf = (item: string) => `[${Array(Math.floor(100_000 / item.length)).fill(item)}]`;
const numbered = (item: (n: string) => string) =>
  `[${Array.from({ length: 10_000 }, (_, n) => item(`x${n.toString(36)}`))}]`;

const hostile = {
  arrays: listOf('[]'),
  nested: listOf(`${'['.repeat(200)}${']'.repeat(200)}`),
  objects: listOf('{}'),
  holes: listOf('{"33":1}'),
  'escaped holes': listOf('{"\\u00333":1}'),
  'hash tables': listOf('{"1000000":1}'),
  numbers: listOf('-0').replace('-0', '""'),
  integers: listOf('1'),
  strings: numbered((n) => `"${n}"`),
  'wide strings': numbered((n) => `"${n}${'a'.repeat(50)}\\u4e00"`),
  keys: numbered((n) => `"${n}":0`).replace(/^.(.*).$/, '{$1}'),
  layouts: numbered((n) => `{"${n}":0}`),
  'layouts of equal keys': numbered((n) => `{"${n.slice(0, -1)}":0,"b${n.slice(-1)}":0}`),
};

test('the estimate is close to the heap that each hostile text takes', () => {
  // In a process of its own, so that nothing else changes the heap.
  const measure = `
    let texts = '';
    process.stdin.setEncoding('utf8').on('data', (part) => (texts += part)).on('end', () => {
      const sizes = JSON.parse(texts).map((text) => {
        JSON.parse(' ' + text.slice(0, 1) + text.slice(-1));
        gc();
        const before = process.memoryUsage().heapUsed;
        const value = JSON.parse(text);
        gc();
        return [process.memoryUsage().heapUsed - before, value][0];
      });
      console.log(JSON.stringify(sizes));
    });`;
  const input = JSON.stringify(Object.values(hostile));
  const sizes = JSON.parse(
    execFileSync(process.execPath, ['--expose-gc', '-e', measure], { input, encoding: 'utf8' }),
  ) as number[];
  for (const [index, [name, text]] of Object.entries(hostile).entries()) {
    const ratio = parsedSize(text) / sizes[index]!;
    expect([name, ratio > 0.8 && ratio < 4 ? 'close' : ratio]).toEqual([name, 'close']);
  }
});

/** Least size of a value. */
function leastSize(value: unknown, strings = new Set<string>(), isObject = true): number {
  if (typeof value === 'number') return isObject && (value | 0) !== value ? 16 : 0;
  if (typeof value === 'string') {
    if (value.length <= 1 || strings.has(value)) return 0;
    strings.add(value);
    return 16 + value.length * (/[^\0-\xff]/.test(value) ? 2 : 1);
  }
  if (typeof value !== 'object' || value === null) return 0;
  const items = Object.values(value);
  const inside = items.reduce(
    (sum: number, item) => sum + 8 + leastSize(item, strings, !Array.isArray(value)),
    0,
  );
  return inside + (Array.isArray(value) ? (items.length === 0 ? 32 : 48) : 24);
}

test('no value takes more than the estimate of its text, however it is written', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.nat(2), (value, space) => {
      const text = JSON.stringify(value, null, space);
      expect(parsedSize(text)).toBeGreaterThanOrEqual(leastSize(JSON.parse(text)));
    }),
    { numRuns: 500 },
  );
});

test('usual texts count their length, hostile ones several times as much', () => {
  const order = (n: number) => ({
    id: `ord_${n}`,
    created_at: new Date(n * 1e9).toISOString(),
    status: ['open', 'paid', 'sent'][n % 3],
    total: n * 1.37,
    paid_at: 1_700_000_000_000 + n,
    customer: { id: n * 31, email: `user${n}@example.com`, name: 'Jane Doe', tags: ['new', 'eu'] },
    items: [{ sku: `SKU-${n}`, quantity: n % 5, price: 9.99 }],
    note: n % 4 ? null : 'Please deliver before noon; "ring" [twice], {or call}: 1,2,3.',
  });
  const orders = JSON.stringify(Array.from({ length: 500 }, (_, n) => order(n)));
  expect(parsedBytes(orders)).toBe(orders.length);
  expect(parsedBytes(JSON.stringify({ body: orders }))).toBe(JSON.stringify({ body: orders }).length);
  for (const text of [hostile.arrays, hostile.objects, hostile.holes, hostile.nested]) {
    expect(parsedBytes(text)).toBeGreaterThan(6 * text.length);
  }
});

test('malformed texts have an estimate, too', () => {
  for (const text of ['', '"', '"a', '{"a"', '{"a" ', '[1', '-', '{"a\\', '\u4e00']) {
    expect(parsedSize(text)).toBeGreaterThanOrEqual(0);
  }
});

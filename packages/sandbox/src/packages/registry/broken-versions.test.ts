import { expect, test } from '@jest/globals';
import { excludeBroken } from './broken-versions.ts';
import { type Packument, readPackument } from './packument.ts';

type Dependencies = Record<string, string>;

const packumentOf = (name: string, versions: Record<string, Dependencies>, tags: Dependencies = {}) =>
  readPackument(
    name,
    JSON.stringify({
      name,
      'dist-tags': tags,
      versions: Object.fromEntries(
        Object.entries(versions).map(([version, dependencies]) => [
          version,
          {
            dependencies,
            dist: { integrity: 'sha512-AAAA', tarball: `https://registry.example/${version}.tgz` },
          },
        ]),
      ),
    }),
  );

function exclude(packuments: readonly Packument[], missing: Dependencies = {}, max?: number) {
  const known = {
    packuments: new Map(packuments.map((packument) => [packument.name, packument])),
    missing: new Map(Object.entries(missing)),
    isUsable: ({ unusable }: Packument, { version }: { version: string }) => !unusable.has(version),
  };
  return excludeBroken(known, max);
}

test('versions with missing dependencies are excluded, transitively', () => {
  const app = packumentOf('app', { '1.0.0': { left: '^1.0.0' }, '1.1.0': { left: '^2.0.0' } });
  const left = packumentOf(
    'left',
    { '1.0.0': {}, '2.0.0': { gone: '*' }, '2.0.1': { right: 'next' } },
    { latest: '2.0.1' },
  );
  const right = packumentOf('right', { '1.0.0': { gone: '1' } }, { next: '1.0.0' });
  expect(exclude([app, left, right], { gone: 'was not found' })).toBe(4);
  expect([...app.unusable]).toEqual([
    ['1.1.0', 'it depends on left@^2.0.0, of which no version can be used'],
  ]);
  expect(left.unusable.get('2.0.0')).toBe('it depends on gone, which was not found');
  expect([...left.unusable.keys()].sort()).toEqual(['2.0.0', '2.0.1']);
  expect([...right.unusable.keys()]).toEqual(['1.0.0']);
  expect(exclude([app, left, right], { gone: 'was not found' })).toBe(0);
});

test('versions with circular dependencies or dependencies on unrequested packages stay', () => {
  const circle = packumentOf('circle', { '1.0.0': { circle: '2' }, '2.0.0': { circle: '1', unknown: '*' } });
  expect(exclude([circle])).toBe(0);
});

const chain = (length: number, rangeOf: (next: number) => string) =>
  packumentOf(
    'chain',
    Object.fromEntries(
      Array.from({ length }, (_, n): [string, Dependencies] => [
        `1.0.${n}`,
        n === length - 1 ? { gone: '*' } : { chain: rangeOf(n + 1) },
      ]),
    ),
  );

test('a chain of 20,000 dependent versions is checked in linear time', () => {
  expect(exclude([chain(20_000, (n) => `1.0.${n}`)], { gone: 'was not found' })).toBe(20_000);
});

test('ranges beyond the limit of comparisons count as fulfilled', () => {
  const rangeOf = (n: number) => `>=1.0.${n} <1.0.${n + 1}`;
  const missing = { gone: 'was not found' };
  expect(exclude([chain(100, rangeOf)], missing)).toBe(100);
  expect(exclude([chain(100, rangeOf)], missing, 1000)).toBeLessThan(100);
  // 20,000 ranges, each compared with 20,000 versions.
  expect(exclude([chain(20_000, rangeOf)], missing)).toBeLessThan(20_000);
});

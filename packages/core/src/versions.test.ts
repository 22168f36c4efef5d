import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { isSemver, newestOf, newestUpTo } from './versions.ts';

test.each([
  '0.0.0',
  '1.2.3',
  '10.20.30',
  '1.0.0-alpha',
  '1.0.0-alpha.1',
  '1.0.0-0A.is.legal',
  '1.0.0+21AF',
  '1.0.0-rc.1+b.1',
])('%s is a semantic version', (text) => expect(isSemver(text)).toBe(true));

test.each([
  '',
  '1',
  '1.0',
  'latest',
  'v1.0.0',
  '01.0.0',
  '1.0.0-',
  '1.0.0-01',
  '1.0.0+',
  '1.0.0 ',
  '1.0.0-a..b',
  '１.0.0',
  '1.0.9007199254740992',
  `1.0.${'9'.repeat(300)}`,
])('refuses %j', (text) => expect(isSemver(text)).toBe(false));

test('versions are ordered by precedence', () => {
  // The examples of semver.org, 11, and the largest number that npm accepts.
  const ordered = [
    '0.0.1',
    '0.0.2',
    '0.0.10',
    '1.0.0-1',
    '1.0.0-alpha',
    '1.0.0-alpha.1',
    '1.0.0-alpha.beta',
    '1.0.0-beta',
    '1.0.0-beta.2',
    '1.0.0-beta.11',
    '1.0.0-rc.1',
    '1.0.0',
    '2.0.0',
    '2.1.0',
    '2.1.9007199254740990',
    '2.1.9007199254740991',
  ];
  fc.assert(
    fc.property(fc.nat(ordered.length - 1), fc.nat(ordered.length - 1), (i, j) => {
      expect(newestUpTo([ordered[i]!])(ordered[j]!)).toBe(i <= j ? ordered[i] : undefined);
    }),
  );
  expect(newestUpTo(['1.0.0+b'])('1.0.0+a')).toBe('1.0.0+b');
  expect(newestUpTo(['1.0.0+a'])('1.0.0+b')).toBe('1.0.0+a');
});

test('the newest is the highest release, and a prerelease only when there is nothing else', () => {
  const newest = (...versions: string[]) => newestOf(versions.map((version) => ({ version })))?.version;
  expect(newest('0.0.2', '0.0.10', '0.0.9')).toBe('0.0.10');
  expect(newest('1.0.0', '2.0.0-beta.1')).toBe('1.0.0');
  expect(newest('2.0.0-beta.2', '2.0.0-beta.10')).toBe('2.0.0-beta.10');
  expect(newest()).toBeUndefined();
  expect(newest('no-version')).toBeUndefined();
});

test.each([
  ['1', '1.2.0'],
  ['^1.0.0', '1.2.0'],
  ['~1.1.0', '1.1.9'],
  ['1.1.x', '1.1.9'],
  ['>=1.1 <1.2', '1.1.9'],
  ['*', '2.0.0'],
  ['^3.0.0-beta.1', '3.0.0-beta.1'],
  ['^4', undefined],
  ['', undefined],
  ['latest', undefined],
])('the newest version in the range %j is %s', (range, expected) => {
  const versions = ['1.0.0', '1.2.0', '1.1.9', '2.0.0', '3.0.0-beta.1', 'none'];
  expect(
    newestOf(
      versions.map((version) => ({ version })),
      range,
    )?.version,
  ).toBe(expected);
});

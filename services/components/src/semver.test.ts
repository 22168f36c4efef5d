import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { compareSemver, isSemver, newestVersion } from './semver.ts';

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
  `1.0.${'9'.repeat(300)}`,
])('refuses %j', (text) => expect(isSemver(text)).toBe(false));

test('versions are ordered by precedence', () => {
  // The examples of semver.org, 11, and numbers beyond what a double holds.
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
    '2.1.90071992547409930',
    '2.1.90071992547409931',
  ];
  fc.assert(
    fc.property(fc.nat(ordered.length - 1), fc.nat(ordered.length - 1), (i, j) => {
      expect(Math.sign(compareSemver(ordered[i]!, ordered[j]!))).toBe(Math.sign(i - j));
    }),
  );
  expect(compareSemver('1.0.0+a', '1.0.0+b')).toBe(0);
});

test('the newest is the highest release, and a prerelease only when there is nothing else', () => {
  const newest = (...versions: string[]) => newestVersion(versions.map((version) => ({ version })))?.version;
  expect(newest('0.0.2', '0.0.10', '0.0.9')).toBe('0.0.10');
  expect(newest('1.0.0', '2.0.0-beta.1')).toBe('1.0.0');
  expect(newest('2.0.0-beta.2', '2.0.0-beta.10')).toBe('2.0.0-beta.10');
  expect(newest()).toBeUndefined();
});

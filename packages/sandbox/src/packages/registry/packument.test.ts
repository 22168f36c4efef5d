import { expect, test } from '@jest/globals';
import { readPackument } from './packument.ts';

const engines = (value: unknown) => {
  const dist = { integrity: 'sha512-AAAA', tarball: 'https://registry.example/1.tgz' };
  const packument = { name: 'one', versions: { '1.0.0': { dist, engines: value } } };
  return readPackument('one', JSON.stringify(packument)).versions.get('1.0.0')!.rest.engines;
};

test('of the engines of a package only ranges of Node.js and package managers are passed on', () => {
  const runtime = { name: 'node', version: '22.0.0', onFail: 'download' };
  expect(engines({ node: '>=20', npm: '>=10', pnpm: '>=9', vscode: '^1.0.0', runtime })).toEqual({
    node: '>=20',
    npm: '>=10',
    pnpm: '>=9',
  });
  expect(engines({ node: runtime, runtime: [runtime] })).toEqual({});
  expect(engines(['node >= 0.6'])).toEqual({});
  expect(engines(undefined)).toEqual({});
});

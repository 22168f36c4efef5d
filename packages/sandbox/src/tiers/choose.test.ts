import { expect, test } from '@jest/globals';
import { type Log, silentLog } from '@wellspring/core/log';
import type { Executor } from '../port.ts';
import { chooseTier } from './choose.ts';
import type { LauncherOptions } from './launcher.ts';

test('the tier without isolation is never chosen silently, also if it is configured', async () => {
  const warnings: object[] = [];
  const log: Log = { ...silentLog, warn: (fields, event) => void warnings.push({ ...fields, event }) };
  const options = {
    programs: { child: process.execPath, network: process.execPath },
    readable: { provide: (path: string) => path },
    packages: '/',
  } as unknown as LauncherOptions;
  const executor = { tier: 'none' } as Executor;
  expect(await chooseTier('none', options, log, async () => ({ executor }))).toBe(executor);
  expect(warnings).toEqual([{ event: 'sandbox.not_isolated', isolation: 'none' }]);
});

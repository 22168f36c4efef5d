import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { configTable } from '@wellspring/runtime/config';
import { STOP_TIMEOUT_MS } from '@wellspring/runtime/run';
import { tempDir } from './temp-dir.ts';

const ROOT = join(import.meta.dirname, '../../..');
const text = readFileSync(join(ROOT, 'deploy/systemd/wellspring.service'), 'utf8');
const settings = text.split('\n').flatMap((line) => {
  const [, name, value] = /^(\w+)=(.*)$/.exec(line) ?? [];
  return name === undefined ? [] : [{ name, value: value! }];
});
const settingOf = (wanted: string) => settings.find(({ name }) => name === wanted)?.value;

test('the systemd unit starts files that exist, with the flags of `start`, without a shell or package manager', () => {
  const directory = settingOf('WorkingDirectory')!;
  const [node, ...rest] = settingOf('ExecStart')!.split(' ') as [string, ...string[]];
  const main = rest.find((argument) => !argument.startsWith('-'))!;
  expect(node.startsWith(`${directory}/`)).toBe(true);
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  expect(`exec node ${rest.join(' ')}`).toBe(scripts.start);
  for (const path of [node.slice(directory.length + 1), main])
    expect(existsSync(join(ROOT, path))).toBe(true);
});

test('the unit restarts a platform that ended, except where that is useless, and gives it the time to drain', () => {
  expect([settingOf('Restart'), settingOf('RestartPreventExitStatus'), settingOf('KillMode')]).toEqual([
    'always',
    '78',
    'mixed',
  ]);
  expect(Number(settingOf('TimeoutStopSec')) * 1000).toBeGreaterThan(STOP_TIMEOUT_MS + 5_000);
});

test('the unit sets only variables that the platform reads, and keeps its data where it may write', () => {
  const variables = settingOf('Environment')!
    .split(' ')
    .map((one) => one.split('=') as [string, string]);
  const known = ['NODE_ENV', ...configTable.map(({ name }) => name)];
  expect(variables.filter(([name]) => !known.includes(name))).toEqual([]);
  expect(new Map(variables).get('WELLSPRING_DATA_DIR')).toBe(`/var/lib/${settingOf('StateDirectory')}`);
});

test('the unit has no privileges, and allows what bubblewrap and the compiler of JavaScript need', () => {
  expect([
    settingOf('NoNewPrivileges'),
    settingOf('ProtectSystem'),
    settingOf('CapabilityBoundingSet'),
  ]).toEqual(['yes', 'strict', '']);
  const harmful =
    /^(RestrictNamespaces|ProtectKernelTunables|ProtectKernelLogs|ProtectProc|MemoryDenyWriteExecute)$/;
  expect(settings.filter(({ name }) => harmful.test(name))).toEqual([]);
});

(spawnSync('systemd-analyze', ['--version']).status === 0 ? test : test.skip)(
  'systemd accepts the unit',
  async () => {
    await using directory = await tempDir();
    const path = join(directory.path, 'wellspring.service');
    // Installed nowhere here.
    writeFileSync(path, text.replace(/^ExecStart=\S+/m, 'ExecStart=/bin/true'));
    expect(execFileSync('systemd-analyze', ['verify', path], { encoding: 'utf8', stdio: 'pipe' })).toBe('');
  },
);

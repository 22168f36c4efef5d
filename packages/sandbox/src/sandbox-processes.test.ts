import { expect, test } from '@jest/globals';
import { type Clock, systemClock } from '@wellspring/core/clock';
import { eventually } from '@wellspring/testing/eventually';
import { descendants, isSandboxed } from './processes.fixture.ts';
import { createRecorder, openSandbox } from './sandbox.fixture.ts';

test('a call whose bundle cannot be written ends the process that was taken for it', async () => {
  await using sandbox = await openSandbox('none');
  await eventually(() => sandbox.executor.stats().pool === 1);
  const call = sandbox.executor.execute(
    {
      // No file can have this name.
      bundleId: 'missing/directory',
      readBundle: async () => ({ format: 'esm', code: '', packages: {}, lockfile: null }),
      call: { kind: 'define' },
    },
    createRecorder(),
    { timeoutMs: 10_000 },
  );
  await expect(call).rejects.toThrow('ENOENT');
  // The pool is full again, and no other process is left.
  await eventually(
    () => sandbox.executor.stats().pool === 1 && descendants(process.pid).filter(isSandboxed).length === 1,
  );
});

test('code that keeps ending its process waits for its next one, while another owner has calls', async () => {
  const slept: number[] = [];
  const clock: Clock = {
    ...systemClock,
    async sleep(ms, signal) {
      // Other work sleeps for an hour.
      if (ms > 60_000) return systemClock.sleep(ms, signal);
      slept.push(ms);
    },
  };
  await using sandbox = await openSandbox('none', { clock });
  const crash = async () => {
    const owner = { id: 'u_crash', allowNetworks: [] };
    for (let n = 0; n < 4; n++)
      expect(await sandbox.run('process.exit(1)', { process: 'crash', owner })).toMatchObject({
        ok: false,
        reason: 'crash',
      });
  };
  await crash();
  expect(slept).toEqual([]);
  const end = new AbortController();
  const other = sandbox.run('await new Promise(() => setInterval(() => {}, 1000))', {
    process: 'other',
    owner: { id: 'u_other', allowNetworks: [] },
    signal: end.signal,
  });
  await eventually(() => sandbox.executor.stats().busy === 1);
  await crash();
  expect(slept.length).toBeGreaterThan(0);
  end.abort();
  await other;
});

import { expect, test } from '@jest/globals';
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

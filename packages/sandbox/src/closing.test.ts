import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { eventually } from '@wellspring/testing/eventually';
import { openSandbox } from './sandbox.fixture.ts';

test('closing rejects current and waiting calls as no fault of theirs', async () => {
  await using sandbox = await openSandbox('none');
  const code = `export default { name: 'x', run(event) { return event.ends ? undefined : new Promise(() => {}); } }`;
  const ended = sandbox.runModule(code, { process: 'a/1', event: { ends: true } });
  expect(await ended).toMatchObject({ ok: true });
  const calls = [
    ...[1, 2, 3].map(() => sandbox.runModule(code, { process: 'a/1' })),
    sandbox.runModule(code),
  ].map((call) => call.catch((error: unknown) => error));
  await eventually(() => sandbox.executor.stats().busy === 2);
  await sandbox.executor.close();
  for (const call of calls) expect(await call).toBeInstanceOf(Unavailable);
});

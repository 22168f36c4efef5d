import { expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { callContract } from './contract.ts';
import { createEmbeddedCall } from './embedded.ts';

callContract('embedded', async () => createEmbeddedCall({ log: silentLog }));

test('closing ends whoever waits for a server or a message', async () => {
  const call = createEmbeddedCall({ log: silentLog });
  const request = call.request('nobody', 1, { deadlineMs: 1_000_000 });
  const message = call.open().receive(1_000_000);
  await call.close();
  await expect(request).rejects.toThrow('nobody serves');
  expect(await message).toBeUndefined();
});

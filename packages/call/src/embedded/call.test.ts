import { expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { callConformance } from '../conformance.ts';
import { createEmbeddedCall } from './call.ts';

callConformance('embedded', async () => createEmbeddedCall({ log: silentLog }));

test('close ends pending requests and receives', async () => {
  const call = createEmbeddedCall({ log: silentLog });
  const request = call.request('nobody', 1, { deadlineMs: 1_000_000 });
  const message = call.openReplyAddress().receive(1_000_000);
  await call.close();
  await expect(request).rejects.toThrow('no process served it');
  expect(await message).toBeUndefined();
});

import { expect, test } from '@jest/globals';
import { withTimeout } from '@wellspring/core/with-timeout';
import { CallFailed } from '../port.ts';
import { createPendingRequests } from './pending-requests.ts';

test('close fails all requests that wait for their answer', async () => {
  const pending = createPendingRequests(() => {});
  const asked = ['one', 'two'].map((server) => pending.ask(server, 'hook', Buffer.from('1'), 2_000));
  const ended = Promise.allSettled(asked);
  pending.close();
  // By a timer of the same event loop, since this process may be slow.
  expect(await withTimeout(ended, 1_000)).toEqual(
    Array(2).fill({ status: 'rejected', reason: expect.any(CallFailed) }),
  );
});

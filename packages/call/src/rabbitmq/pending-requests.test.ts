import { expect, test } from '@jest/globals';
import { CallFailed } from '../port.ts';
import { createPendingRequests } from './pending-requests.ts';

test('close fails all requests that wait for their answer', async () => {
  const pending = createPendingRequests(() => {});
  const asked = ['one', 'two'].map((server) => pending.ask(server, 'hook', Buffer.from('1'), 2_000));
  const ended = Promise.allSettled(asked);
  const begun = performance.now();
  pending.close();
  for (const result of await ended) {
    expect(result).toMatchObject({ status: 'rejected', reason: expect.any(CallFailed) });
  }
  expect(performance.now() - begun).toBeLessThan(1_000);
});

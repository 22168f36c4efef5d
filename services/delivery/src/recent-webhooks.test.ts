import { expect, test } from '@jest/globals';
import { webhooks } from '@wellspring/store/collections/webhooks';
import { usePlatform } from './platform.fixture.ts';
import { createRecentWebhooks } from './recent-webhooks.ts';

const t = usePlatform();

test('a row is reread after a second, for a later delivery, and after a change by this process', async () => {
  const rows = t.store.collection(webhooks);
  const recent = createRecentWebhooks(t);
  const { id } = await t.webhook('http://old/');
  const old = (await rows.get(id))!;
  const at = t.clock.now();
  recent.put(old, at);
  await rows.patch(id, { url: 'http://new/' });
  const url = async (since: number) => (await recent.get(id, since))?.url;
  expect(await url(at)).toBe('http://old/');
  expect(await url(at + 1)).toBe('http://new/');

  recent.put(old, t.clock.now());
  recent.put(old, at - 1);
  expect(await url(at)).toBe('http://old/');
  t.clock.advance(1_000);
  expect(await url(at)).toBe('http://new/');

  recent.put(old, t.clock.now());
  recent.forget(id);
  expect(await url(at)).toBe('http://new/');
  await rows.remove(id);
  expect(await url(at)).toBeUndefined();
});

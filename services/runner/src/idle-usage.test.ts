import { expect, test } from '@jest/globals';
import { usage } from '@wellspring/store/collections/users';
import { eventually } from '@wellspring/testing/eventually';
import { OWNER } from '@wellspring/testing/rows';
import { usePlatform } from './platform.fixture.ts';

// Freezing is off, so that code uses a measurable time between runs.
const t = usePlatform({ freezeAfterMs: Number.POSITIVE_INFINITY });

const END = Buffer.from('{"ok":true}');

test('processor time between runs counts for the account of the owner', async () => {
  const id = await t.deploy(`import fs from 'node:fs'; export default { name: 'x', run() {
    fs.writeSync(3, Buffer.from(${JSON.stringify([END.length + 1, 0, 0, 0, 16, ...END])}));
    const from = process.cpuUsage();
    for (;;) {
      const { user, system } = process.cpuUsage(from);
      if (user + system > 3_000_000) return process.exit();
    }
  } }`);
  const row = async () => (await t.store.collection(usage).list({ order: 'asc' }))[0];
  // That of its definition.
  const before = await eventually(async () => (await row())?.compute_ms || false);
  await t.runAll(id, [1]);
  await t.quiet();
  const end = (await t.logs(id)).find(({ k }) => k === 'end');
  expect(end).toMatchObject({ state: 'ok', compute_ms: expect.any(Number) });
  await eventually(
    async () => {
      const used = await row();
      expect(used).toMatchObject({ id: expect.stringContaining(OWNER), invocations: 1 });
      // A run counts at least 100 ms; this one goes on for 3 s.
      expect(used!.compute_ms).toBeGreaterThan(before + Math.max(100, end!.compute_ms!) + 600);
    },
    { ms: 20_000 },
  );
}, 60_000);

import { expect, test } from '@jest/globals';
import { createByteBudget } from '@wellspring/core/byte-budget';
import { usePlatform } from './platform.fixture.ts';

const KB = 1024;
const states = createByteBudget(64 * KB);
const t = usePlatform({ memory: { states } });

const COUNTING = `export default { name: 'Counting', props: { db: '$.service.db' }, run() {
  const { n } = this.db.get('state') ?? { n: 0 };
  this.db.set('state', { n: n + 1, text: 'x'.repeat(10 * 1024) });
  this.$emit(n + 1);
} };`;

test('states of idle sources take bounded memory, and are read again for their next runs', async () => {
  const ids = await Promise.all(Array.from({ length: 8 }, () => t.deploy(COUNTING)));
  for (let round = 0; round < 2; round += 1) {
    for (const id of ids) await t.runToEnd(id, [{}]);
    expect(states.used).toBeGreaterThan(10 * KB);
    expect(states.used).toBeLessThanOrEqual(states.total);
  }
  for (const id of ids) expect(await t.events(id)).toEqual([1, 2]);
});

import { beforeEach, describe, expect, test } from '@jest/globals';
import type { Patience } from './patience.ts';
import { createPermits, type Line, type Permit, type Permits } from './permits.ts';

const LIMITS = { perWebhook: 8, total: 64, trialsPerOwner: 8 };
let now: number;
let permits: Permits;
beforeEach(() => {
  now = 1_000_000;
  permits = createPermits(
    LIMITS,
    () => now,
    () => {},
  );
});

const forever: Patience = () => () => {};
/** A line whose last attempt succeeded. */
const sound = (id: string, owner = 'u_1') => permits.line(id, owner, { failures: 0, tried_at: 1 });
/** Permits that a line gets at once. */
async function taken(line: Line, count: number): Promise<Permit[]> {
  const got: Permit[] = [];
  for (let n = 0; n < count; n++) {
    permits.wait(line, forever).then((permit) => permit && got.push(permit));
    await Promise.resolve();
  }
  await Promise.resolve();
  return got;
}

describe('permits', () => {
  test('a webhook that answers has eight, one that was never tried has one', async () => {
    expect(await taken(sound('wh_1'), 20)).toHaveLength(8);
    expect(await taken(permits.line('wh_2', 'u_1'), 20)).toHaveLength(1);
  });

  test('after a failure a webhook has one after a pause that grows, after a success eight again', async () => {
    const line = sound('wh_1');
    const pauses = [];
    for (let failures = 1; failures <= 10; failures++) {
      permits.record(line, { failures, tried_at: now });
      expect(await taken(line, 1)).toHaveLength(0);
      permits.setRows(line, true);
      pauses.push(permits.nextPauseEnd - now);
      permits.setRows(line, false);
      now = now + pauses.at(-1)! + 1;
      const [probe] = await taken(line, 1);
      permits.setRows(line, true);
      expect(permits.turn()).toBeUndefined();
      permits.setRows(line, false);
      probe!.release();
    }
    expect(pauses).toEqual([250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    permits.record(line, { failures: 0, tried_at: now });
    expect(await taken(line, 20)).toHaveLength(8);
  });

  test('webhooks that were never tried leave half of the permits to those that answer', async () => {
    for (let n = 0; n < 100; n++) await taken(permits.line(`wh_new${n}`, `u_${n}`), 1);
    expect(permits.taken).toBe(LIMITS.total / 2);
    for (let n = 0; n < 4; n++) expect(await taken(sound(`wh_${n}`), 8)).toHaveLength(8);
  });

  test('an owner with many webhooks that were never tried has a part of the permits on trial', async () => {
    for (let n = 0; n < 100; n++) await taken(permits.line(`wh_new${n}`, 'u_1'), 1);
    expect(permits.onTrial).toBe(LIMITS.trialsPerOwner);
    expect(await taken(permits.line('wh_other', 'u_2'), 1)).toHaveLength(1);
  });

  test('attempts that take long end, the oldest first, when others need their permits', async () => {
    const ended: string[] = [];
    const hanging: Permit[] = [];
    for (let n = 0; n < 8; n++) hanging.push(...(await taken(sound(`wh_${n}`, `u_${n}`), 8)));
    expect(permits.taken).toBe(LIMITS.total);
    for (const permit of hanging) {
      permit.setSlow(() => {
        ended.push(permit.line.id);
        permit.release();
      });
    }
    expect(ended).toEqual(['wh_0', 'wh_1', 'wh_2', 'wh_3'].flatMap((id) => Array(8).fill(id)));
    expect(await taken(sound('wh_other'), 8)).toHaveLength(8);
    // One that was never tried takes the place of the next.
    await taken(permits.line('wh_new', 'u_9'), 1);
    expect(ended).toHaveLength(33);
    expect(permits.onTrial).toBe(LIMITS.total / 2);
  });

  test('what waits for a webhook that fails is sent to the store at once', async () => {
    const line = sound('wh_1');
    await taken(line, 8);
    const waiting = permits.wait(line, forever);
    permits.record(line, { failures: 1, tried_at: now });
    expect(await waiting).toBeUndefined();
    expect(await permits.wait(line, forever)).toBeUndefined();
  });

  test('webhooks with rows take turns, each with its free permits', async () => {
    const lines = [sound('wh_1'), sound('wh_2'), permits.line('wh_3', 'u_1')];
    for (const line of lines) permits.setRows(line, true);
    const turns = Array.from({ length: 4 }, () => permits.turn()?.map(({ line }) => line.id));
    expect(turns).toEqual([Array(8).fill('wh_1'), Array(8).fill('wh_2'), ['wh_3'], undefined]);
  });

  test('the row of a webhook is believed if another process has tried it since', () => {
    const line = sound('wh_1');
    permits.line('wh_1', 'u_1', { failures: 5, tried_at: now });
    expect(line.failures).toBe(5);
    permits.line('wh_1', 'u_1', { failures: 0, tried_at: now - 1 });
    expect(line.failures).toBe(5);
    // Changed through the API.
    permits.line('wh_1', 'u_1', { failures: null, tried_at: now + 1 });
    expect(line.failures).toBeNull();
  });
});

import { beforeEach, describe, expect, test } from '@jest/globals';
import type { FirstAttemptTimeout } from './first-attempt-timeout.ts';
import { createPermits, type Permit, type PermitLimits, type Permits, type Receiver } from './permits.ts';

const LIMITS = { perWebhook: 8, total: 64, probationPerOwner: 8 };
let now: number;
let permits: Permits;
/** Searches for claims that were caused. */
let searches: number;

function open(limits: PermitLimits): void {
  [now, searches] = [1_000_000, 0];
  permits = createPermits(
    limits,
    () => now,
    () => {
      searches += 1;
    },
  );
}
beforeEach(() => open(LIMITS));

const forever: FirstAttemptTimeout = () => () => {};
/** A receiver whose last attempt succeeded. */
const sound = (id: string, owner = 'u_1') => permits.receiver(id, owner, { failures: 0, tried_at: 1 });
/** Permits that a receiver gets at once. */
async function taken(receiver: Receiver, count: number): Promise<Permit[]> {
  const got: Permit[] = [];
  for (let n = 0; n < count; n++) {
    permits.acquire(receiver, forever).then((permit) => permit && got.push(permit));
    await Promise.resolve();
  }
  await Promise.resolve();
  return got;
}

describe('permits', () => {
  test('a webhook that answers has eight, one that was never tried has one', async () => {
    expect(await taken(sound('wh_1'), 20)).toHaveLength(8);
    expect(await taken(permits.receiver('wh_2', 'u_1'), 20)).toHaveLength(1);
  });

  test('after a failure a webhook has one after a pause that grows, after a success eight again', async () => {
    const receiver = sound('wh_1');
    const pauses = [];
    for (let failures = 1; failures <= 10; failures++) {
      permits.record(receiver, { failures, tried_at: now });
      expect(await taken(receiver, 1)).toHaveLength(0);
      permits.setDueRows(receiver, true);
      pauses.push(permits.nextPauseEnd - now);
      permits.setDueRows(receiver, false);
      now = now + pauses.at(-1)! + 1;
      const [probe] = await taken(receiver, 1);
      permits.setDueRows(receiver, true);
      expect(permits.nextClaim()).toBeUndefined();
      permits.setDueRows(receiver, false);
      probe!.release();
    }
    expect(pauses).toEqual([250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    permits.record(receiver, { failures: 0, tried_at: now });
    expect(await taken(receiver, 20)).toHaveLength(8);
  });

  test('a clock that is set back does not prolong the pause of a webhook', async () => {
    const receiver = sound('wh_1');
    permits.record(receiver, { failures: 1, tried_at: now });
    expect(await taken(receiver, 1)).toHaveLength(0);
    now -= 3_600_000;
    expect(await taken(receiver, 8)).toHaveLength(1);
  });

  test('webhooks that were never tried leave half of the permits to those that answer', async () => {
    for (let n = 0; n < 100; n++) await taken(permits.receiver(`wh_new${n}`, `u_${n}`), 1);
    expect(permits.taken).toBe(LIMITS.total / 2);
    for (let n = 0; n < 4; n++) expect(await taken(sound(`wh_${n}`), 8)).toHaveLength(8);
  });

  test('an owner with many webhooks that were never tried has a part of the permits on probation', async () => {
    for (let n = 0; n < 100; n++) await taken(permits.receiver(`wh_new${n}`, 'u_1'), 1);
    expect(permits.onProbation).toBe(LIMITS.probationPerOwner);
    expect(await taken(permits.receiver('wh_other', 'u_2'), 1)).toHaveLength(1);
  });

  /** Attempts become slow, in this order; returns the webhooks of those that were ended. */
  function setSlow(attempts: Permit[]): string[] {
    const ended: string[] = [];
    for (const permit of attempts) {
      permit.setSlow(() => {
        ended.push(permit.receiver.id);
        permit.release();
      });
    }
    return ended;
  }

  test('attempts that take long end, the oldest first, when others need their permits', async () => {
    const hanging: Permit[] = [];
    for (let n = 0; n < 8; n++) hanging.push(...(await taken(sound(`wh_${n}`), 8)));
    expect(permits.taken).toBe(LIMITS.total);
    const ended = setSlow(hanging);
    expect(ended).toEqual(['wh_0', 'wh_1', 'wh_2', 'wh_3'].flatMap((id) => Array(8).fill(id)));
    expect(await taken(sound('wh_other'), 8)).toHaveLength(8);
    // One that was never tried takes the place of the next.
    await taken(permits.receiver('wh_new', 'u_9'), 1);
    expect(ended).toHaveLength(33);
    expect(permits.onProbation).toBe(LIMITS.total / 2);
  });

  test('slow attempts of one owner are not ended for the many of another one', async () => {
    const slow = await taken(sound('wh_slow', 'u_slow'), 8);
    const hanging: Permit[] = [];
    for (let n = 0; n < 7; n++) hanging.push(...(await taken(sound(`wh_${n}`, 'u_hanging'), 8)));
    // The ones that hang began later.
    const ended = setSlow([...slow, ...hanging]);
    expect(ended).toHaveLength(LIMITS.total / 2);
    expect(ended).not.toContain('wh_slow');
    await taken(permits.receiver('wh_new', 'u_new'), 1);
    expect(ended).toHaveLength(LIMITS.total / 2 + 1);
    expect(ended).not.toContain('wh_slow');
  });

  test('slow attempts of an owner end for its own webhooks, at the limit of one owner, too', async () => {
    const hanging: Permit[] = [];
    for (let n = 0; n < 2 * LIMITS.probationPerOwner; n++)
      hanging.push(...(await taken(permits.receiver(`wh_${n}`, 'u_1'), 1)));
    expect(hanging).toHaveLength(LIMITS.probationPerOwner);
    const ended = setSlow(hanging);
    // For those that wait, by the next claim; and for one that begins to wait.
    permits.setDueRows(permits.receiver('wh_due', 'u_1'), true);
    expect(permits.nextClaim()).toBeUndefined();
    expect(ended).toEqual(['wh_0']);
    await taken(permits.receiver('wh_new', 'u_1'), 1);
    expect(ended).toEqual(['wh_0', 'wh_1']);
    await taken(permits.receiver('wh_other', 'u_2'), 1);
    expect(ended).toHaveLength(2);
  });

  test('slow attempts to a webhook that answers are not ended for webhooks of its owner that hang, and take none of their permits', async () => {
    const answering = await taken(sound('wh_slow', 'u_1'), 8);
    const hanging: Permit[] = [];
    const ended = setSlow(answering);
    for (let n = 0; n < 2 * LIMITS.probationPerOwner; n++)
      hanging.push(...(await taken(permits.receiver(`wh_${n}`, 'u_1'), 1)));
    expect(hanging).toHaveLength(LIMITS.probationPerOwner);
    ended.push(...setSlow(hanging));
    for (let n = 0; n < 4; n++) await taken(permits.receiver(`wh_new${n}`, 'u_1'), 1);
    expect(ended).not.toContain('wh_slow');
    expect(answering.every(({ receiver }) => receiver.held === 8)).toBe(true);
  });

  test('when half of all permits are used, attempts to webhooks that hang end before those to webhooks that answer', async () => {
    const answering: Permit[] = [];
    for (let n = 0; n < 3; n++) answering.push(...(await taken(sound(`wh_slow${n}`, 'u_1'), 8)));
    const hanging: Permit[] = [];
    for (let n = 0; n < 8; n++) hanging.push(...(await taken(permits.receiver(`wh_${n}`, 'u_1'), 1)));
    const ofAnswering = setSlow(answering);
    const ofHanging = setSlow(hanging);
    expect(permits.onProbation).toBe(LIMITS.total / 2);
    for (let n = 0; n < 9; n++) await taken(permits.receiver(`wh_new${n}`, `u_${2 + n}`), 1);
    expect(ofHanging).toHaveLength(8);
    expect(ofAnswering).toEqual(['wh_slow0']);
  });

  test('deliveries that wait for a failing webhook become rows at once', async () => {
    const receiver = sound('wh_1');
    await taken(receiver, 8);
    const waiting = permits.acquire(receiver, forever);
    permits.record(receiver, { failures: 1, tried_at: now });
    expect(await waiting).toBeUndefined();
    expect(await permits.acquire(receiver, forever)).toBeUndefined();
  });

  test('webhooks with rows take turns, each with its free permits', async () => {
    const receivers = [sound('wh_1'), sound('wh_2'), permits.receiver('wh_3', 'u_1')];
    for (const receiver of receivers) permits.setDueRows(receiver, true);
    const turns = Array.from({ length: 4 }, () => permits.nextClaim()?.map(({ receiver }) => receiver.id));
    expect(turns).toEqual([Array(8).fill('wh_1'), Array(8).fill('wh_2'), ['wh_3'], undefined]);
  });

  test('first attempts that wait do not take the permits that claims wait for', async () => {
    const held: Permit[] = [];
    for (let n = 0; n < 8; n++) held.push(...(await taken(sound(`wh_${n}`), 16)));
    expect(permits.taken).toBe(LIMITS.total);
    const due = sound('wh_due', 'u_2');
    permits.setDueRows(due, true);
    expect(permits.nextClaim()).toBeUndefined();
    for (const permit of held.splice(0, 2)) permit.release();
    expect(permits.nextClaim()).toHaveLength(2);
    permits.setDueRows(due, false);
    expect(permits.nextClaim()).toBeUndefined();
    held[0]!.release();
    expect(permits.taken).toBe(LIMITS.total);
  });

  test('attempts that wait get the kept permits at once when no claim waits for them any more', async () => {
    const held: Permit[] = [];
    for (let n = 0; n < 8; n++) held.push(...(await taken(sound(`wh_${n}`), 16)));
    const due = sound('wh_due', 'u_2');
    permits.setDueRows(due, true);
    expect(permits.nextClaim()).toBeUndefined();
    for (const permit of held.splice(0, 3)) permit.release();
    expect(permits.taken).toBe(LIMITS.total - 3);
    permits.setDueRows(due, false);
    expect(permits.nextClaim()).toBeUndefined();
    expect(permits.taken).toBe(LIMITS.total);
  });

  test('a released permit causes a search for claims only if a receiver with rows may use it', async () => {
    open({ ...LIMITS, total: 10 });
    const failing = permits.receiver('wh_failing', 'u_1', { failures: 9, tried_at: now });
    const first = await taken(sound('wh_1'), 8);
    const others = await taken(sound('wh_2'), 2);
    permits.setDueRows(failing, true);
    expect(permits.nextClaim()).toBeUndefined();
    first[0]!.release();
    expect(searches).toBe(0);
    await taken(sound('wh_1'), 1);
    now += 600_000;
    expect(permits.nextClaim()).toBeUndefined();
    others[0]!.release();
    expect(searches).toBe(1);
    expect(permits.nextClaim()).toHaveLength(1);
  });

  test('an attempt that becomes slow causes a search for claims if others of its owner wait', async () => {
    open({ ...LIMITS, probationPerOwner: 1 });
    const [permit] = await taken(permits.receiver('wh_hanging', 'u_1'), 1);
    permits.setDueRows(permits.receiver('wh_due', 'u_1'), true);
    expect(permits.nextClaim()).toBeUndefined();
    const ended = setSlow([permit!]);
    expect(searches).toBe(1);
    expect(permits.nextClaim()).toBeUndefined();
    expect(ended).toEqual(['wh_hanging']);
    expect(permits.nextClaim()).toHaveLength(1);
  });

  test('requests of workflows are not ended for others of their owner, and take none of the permits of its webhooks', async () => {
    const requests: Permit[] = [];
    for (let n = 0; n < 2; n++) requests.push(...(await taken(permits.receiver(`p_${n}`, 'u_1'), 8)));
    expect(requests).toHaveLength(LIMITS.probationPerOwner);
    const ended = setSlow(requests);
    await taken(permits.receiver('p_other', 'u_1'), 1);
    const hanging: Permit[] = [];
    for (let n = 0; n < LIMITS.probationPerOwner; n++)
      hanging.push(...(await taken(permits.receiver(`wh_${n}`, 'u_1'), 1)));
    expect(hanging).toHaveLength(LIMITS.probationPerOwner);
    const ofWebhooks = setSlow(hanging);
    await taken(permits.receiver('wh_new', 'u_1'), 1);
    expect([ended, ofWebhooks]).toEqual([[], ['wh_0']]);
  });

  test('a receiver with rows that another process has found to answer causes a search for claims', () => {
    const failing = permits.receiver('wh_1', 'u_1', { failures: 9, tried_at: now });
    permits.setDueRows(failing, true);
    expect(permits.nextClaim()).toBeUndefined();
    permits.receiver('wh_1', 'u_1', { failures: 0, tried_at: now + 1 });
    expect(searches).toBe(1);
  });

  test('a receiver with rows is remembered, also beyond the number of those that are', () => {
    const wait = (id: string) => {
      const receiver = permits.receiver(id, 'u_1');
      permits.setDueRows(receiver, true);
      return receiver;
    };
    for (let n = 0; n < 20_000; n++) wait(`wh_${n}`);
    const first = wait('wh_first');
    const idle = permits.receiver('wh_idle', 'u_1');
    expect(permits.receiver('wh_first', 'u_1')).toBe(first);
    for (let n = 0; n < 500; n++) wait(`wh_more_${n}`);
    expect(permits.receiver('wh_first', 'u_1')).toBe(first);
    expect(permits.receiver('wh_idle', 'u_1')).not.toBe(idle);
  });

  test('the row of a webhook is believed if another process has tried it since', () => {
    const receiver = sound('wh_1');
    permits.receiver('wh_1', 'u_1', { failures: 5, tried_at: now });
    expect(receiver.failures).toBe(5);
    permits.receiver('wh_1', 'u_1', { failures: 0, tried_at: now - 1 });
    expect(receiver.failures).toBe(5);
    // Changed through the API.
    permits.receiver('wh_1', 'u_1', { failures: null, tried_at: now + 1 });
    expect(receiver.failures).toBeNull();
  });
});

import { describe, expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { users } from '@wellspring/store/collections/users';
import { eventually } from '@wellspring/testing/eventually';
import { userRow } from '@wellspring/testing/rows';
import { usePlatform } from './platform.fixture.ts';

const t = usePlatform();

describe('ticks', () => {
  const TIMED = `export default { name: 'Timed', props: { timer: '$.interface.timer' }, run(event) { this.$emit(event); } };`;
  const tick = (due_at: number) => ({ kind: 'timer' as const, prop: 'timer', due_at, interval_seconds: 60 });

  test('carry seconds and the schedule', async () => {
    const id = await t.deploy(TIMED);
    await t.triggerToEnd(id, tick(1_700_000_000_500));
    expect(await t.events(id)).toEqual([{ timestamp: 1_700_000_000, interval_seconds: 60 }]);
  });

  test('that fell due during the previous run are skipped, with a line in $logs', async () => {
    const id = await t.deploy(TIMED);
    const now = systemClock.now();
    await t.trigger(id, tick(now - 2000), { accepted_at: now - 2000 });
    await t.triggerToEnd(id, tick(now - 1000), { accepted_at: now - 1000 });
    expect(await t.events(id)).toEqual([
      { timestamp: Math.floor((now - 2000) / 1000), interval_seconds: 60 },
    ]);
    expect((await t.logs(id)).filter(({ level }) => level === 'warn')).toEqual([
      expect.objectContaining({
        k: 'log',
        msg: expect.stringMatching(/^The tick of timer at .* was skipped\./),
      }),
    ]);
  });

  test('of two timers that fall due at the same moment are both executed', async () => {
    const id = await t.deploy(
      `export default { name: 'Two', props: { hourly: '$.interface.timer', weekly: '$.interface.timer' },
        run({ cron }) { this.$emit(cron); } };`,
    );
    const now = systemClock.now();
    const crons = { hourly: '0 * * * *', weekly: '0 0 * * 0' };
    for (const [prop, cron] of Object.entries(crons)) {
      await t.trigger(id, { kind: 'timer', prop, due_at: now - 2000, cron }, { accepted_at: now - 1000 });
    }
    await t.quiet();
    expect(await t.events(id)).toEqual(Object.values(crons));
  });

  test('over the quota of the owner are skipped, with one record in $errors', async () => {
    const id = await t.deploy(TIMED);
    await t.store.collection(users).insert(userRow({ daily_invocations_quota: 0 }));
    await t.trigger(id, tick(systemClock.now()));
    await t.triggerToEnd(id, tick(systemClock.now() + 1));
    expect(await t.events(id)).toEqual([]);
    expect((await t.logs(id)).filter(({ level }) => level === 'warn')).toHaveLength(2);
    await eventually(async () => (await t.events(id, '$errors')).length === 1);
  });

  test('delayed by downtime are not skipped because of a finished run', async () => {
    const id = await t.deploy(
      `export default { name: 'Both', run(event) { this.$emit(event.timestamp ?? event); } };`,
    );
    await t.runToEnd(id, ['first']);
    await t.triggerToEnd(id, tick(1_700_000_000_000));
    expect(await t.events(id)).toEqual(['first', 1_700_000_000]);
  });

  test('are not skipped because of a run that ended before the clock was put back', async () => {
    const id = await t.deploy(
      `export default { name: 'Timed', run(event) { this.$emit(event.timestamp); } };`,
    );
    t.ahead = 3_600_000;
    await t.triggerToEnd(id, tick(systemClock.now()));
    t.ahead = 0;
    await t.triggerToEnd(id, tick(systemClock.now()));
    expect(await t.events(id)).toHaveLength(2);
  });

  test('whose commit failed are not skipped when redelivered', async () => {
    const id = await t.deploy(TIMED);
    t.refuseCommit();
    await t.triggerToEnd(id, tick(systemClock.now() - 1000));
    expect(await t.events(id)).toHaveLength(1);
  });
});

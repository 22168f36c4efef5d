import { describe, expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { usePlatform } from './platform.fixture.ts';

const t = usePlatform();

describe('ticks', () => {
  const TIMED = `export default { name: 'Timed', props: { timer: '$.interface.timer' }, run(event) { this.$emit(event); } };`;
  const tick = (due_at: number) => ({ kind: 'timer' as const, prop: 'timer', due_at, interval_seconds: 60 });

  test('carry seconds and the schedule', async () => {
    const id = await t.deploy(TIMED);
    await t.trigger(id, tick(1_700_000_000_500));
    await t.quiet();
    expect(await t.events(id)).toEqual([{ timestamp: 1_700_000_000, interval_seconds: 60 }]);
  });

  test('that fell due during the previous run are skipped, with a line in $logs', async () => {
    const id = await t.deploy(TIMED);
    const now = systemClock.now();
    await t.trigger(id, tick(now - 2000));
    await t.trigger(id, tick(now - 1000));
    await t.quiet();
    expect(await t.events(id)).toEqual([
      { timestamp: Math.floor((now - 2000) / 1000), interval_seconds: 60 },
    ]);
    expect((await t.logs(id)).filter(({ level }) => level === 'warn')).toEqual([
      expect.objectContaining({ k: 'log', msg: expect.stringMatching(/was skipped/) }),
    ]);
  });

  test('delayed by downtime are not skipped because of a finished run', async () => {
    const id = await t.deploy(
      `export default { name: 'Both', run(event) { this.$emit(event.timestamp ?? event); } };`,
    );
    await t.runAll(id, ['first']);
    await t.quiet();
    await t.trigger(id, tick(1_700_000_000_000));
    await t.quiet();
    expect(await t.events(id)).toEqual(['first', 1_700_000_000]);
  });

  test('are not skipped because of a run that ended before the clock was put back', async () => {
    const id = await t.deploy(
      `export default { name: 'Timed', run(event) { this.$emit(event.timestamp); } };`,
    );
    t.ahead = 3_600_000;
    await t.trigger(id, tick(systemClock.now() + t.ahead));
    await t.quiet();
    t.ahead = 0;
    await t.trigger(id, tick(systemClock.now()));
    await t.quiet();
    expect(await t.events(id)).toHaveLength(2);
  });

  test('whose commit failed are not skipped when redelivered', async () => {
    const id = await t.deploy(TIMED);
    let commits = 0;
    t.faults.commit = () => (++commits === 1 ? 'refuse' : undefined);
    await t.trigger(id, tick(systemClock.now() - 1000));
    await t.quiet();
    expect(await t.events(id)).toHaveLength(1);
  });
});

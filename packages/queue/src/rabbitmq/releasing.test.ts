import { expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach } from '@wellspring/testing/lifetimes';
import { withServers } from '@wellspring/testing/servers/servers';
import { ids, openSubject } from './partitions.fixture.ts';

/** A job counts as long-running after a second. */
const LONG_RUNNING_MS = 1_000;
const NOT_URGENT = new AbortController().signal;

await withServers(['rabbitmq'], ({ rabbitmq }) => {
  const closing = closeAfterEach();

  /** A partition whose jobs run until the test ends them. */
  async function openRunning() {
    const subject = closing(await openSubject(rabbitmq, 100));
    const ends = new Map<string, () => void>();
    const seen: string[] = [];
    subject.consume(
      async (jobs, _, assertHeld) => {
        for (const { id } of jobs) {
          assertHeld();
          seen.push(id);
          await new Promise<void>((resolve) => ends.set(id, resolve));
          ends.delete(id);
        }
      },
      { batch: 10 },
    );
    /** Lets the partition check whether it can be released. */
    const check = () => subject.clock.advance(100);
    const hasRun = (id: string) =>
      eventually(async () => {
        await check();
        return seen.includes(id);
      });
    return { ...subject, ends, seen, check, hasRun };
  }

  test('keys with long-running jobs start no more of them once the partition is to be released, and others do', async () => {
    const { receive, publish, release, ends, seen, check, hasRun } = await openRunning();
    await receive('a', ids(4, 'a'));
    await receive('b', ids(4, 'b'));
    await eventually(() => seen.length === 2);
    const begun = performance.now();
    await eventually(() => performance.now() - begun > LONG_RUNNING_MS);
    let isReleased = false;
    const released = release(NOT_URGENT).then(() => {
      isReleased = true;
    });
    await publish('c', 'c0');
    await hasRun('c0');
    ends.get('c0')!();
    ends.get('a0')!();
    // Without the hold, another job of `a` would run for long when this one ends, and so on.
    await publish('c', 'c1');
    await hasRun('c1');
    ends.get('c1')!();
    await check();
    expect(isReleased).toBe(false);
    ends.get('b0')!();
    await eventually(async () => {
      await check();
      return isReleased;
    });
    await released;
    expect(seen).toEqual(['a0', 'b0', 'c0', 'c1']);
  });

  test('a job that began just before the release and runs for long does not hold up other keys', async () => {
    const { receive, publish, release, ends, seen, check, hasRun } = await openRunning();
    await receive('a', ['a0']);
    await eventually(() => seen.length === 1);
    const released = release(NOT_URGENT);
    await publish('b', 'b0');
    await hasRun('b0');
    ends.get('a0')!();
    ends.get('b0')!();
    let isReleased = false;
    void released.then(() => {
      isReleased = true;
    });
    await eventually(async () => {
      await check();
      return isReleased;
    });
    expect(seen).toEqual(['a0', 'b0']);
  });
});

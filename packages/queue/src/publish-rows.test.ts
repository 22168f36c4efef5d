import { expect, test } from '@jest/globals';
import { partitionOf } from '@wellspring/core/partitions';
import { eventually } from '@wellspring/testing/eventually';
import { numbers } from '@wellspring/testing/numbers';
import { withPrograms } from '@wellspring/testing/servers/servers';
import { publishRows } from './publish-rows.ts';
import { useProcesses } from './rabbitmq/faults.fixture.ts';

await withPrograms(['rabbitmq'], () => {
  const { servers, install, start } = useProcesses();

  test('a partition without a leader holds up no rows of others, and its rows are ended when they are confirmed', async () => {
    const installation = install(2);
    // Commands to the broker may take longer than a message has to be confirmed.
    const { queue } = await start({ ...installation, publishTimeoutMs: 60_000 });
    const rows = numbers(100).map((n) => `dc_${n}`);
    const jobOf = (key: string) => ({ key, payload: '0' });
    const ended: string[] = [];
    const end = async (some: readonly string[]) => void ended.push(...some);
    await queue.publishMany('runs', rows.map(jobOf));
    await servers.rabbit.suspend(`${installation.prefix}runs.0`, true);
    const begun = performance.now();
    const { failed, error } = await publishRows(queue, 'runs', { rows, jobOf, end });
    expect(performance.now() - begun).toBeLessThan(5_000);
    const others = rows.filter((key) => partitionOf(key, 2) === 1);
    expect(failed).toBeGreaterThanOrEqual(rows.length - others.length);
    expect(error).toMatch('did not confirm');
    await eventually(() => ended.length === others.length);
    expect(ended.toSorted()).toEqual(others.toSorted());
    await servers.rabbit.suspend(`${installation.prefix}runs.0`, false);
    await eventually(() => ended.length === rows.length);
    expect(ended.toSorted()).toEqual(rows.toSorted());
  }, 60_000);
});

import { readdirSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { JAILS } from './jail.fixture.ts';
import { openClient } from './packager-client.fixture.ts';
import { openRegistry } from './registry.fixture.ts';

describe.each(JAILS)('the processes of a packager with jail %s', (jail) => {
  test('a packument that fills the memory of a process fails only its own installation', async () => {
    await using registry = await openRegistry();
    await using packager = await openClient(jail, registry.url, { heapMb: 160 });
    registry.publish('small', { '1.0.0': {} });
    const before = await packager.settle('small');
    expect(before).toContain('small@1.0.0');
    registry.answer('/large', (_, response) => {
      response.end(`{"name":"large","versions":{},"filler":[${'{},'.repeat(8_000_000)}{}]}`);
    });
    const large = packager.settle('large');
    const beside = packager.settle('small');
    await expect(large).rejects.toMatchObject({
      status: 400,
      message: 'The packages need too much memory to be installed.',
    });
    expect(await beside).toBe(before);
    expect(await packager.settle('small')).toBe(before);
  });

  test('a process whose installation has failed is not used again', async () => {
    await using registry = await openRegistry();
    await using packager = await openClient(jail, registry.url);
    registry.publish('small', { '1.0.0': {} });
    await packager.settle('small');
    expect(readdirSync(packager.work)).toHaveLength(1);
    await expect(packager.settle('missing')).rejects.toMatchObject({ status: 400 });
    await eventually(() => readdirSync(packager.work).length === 0);
    expect(await packager.settle('small')).toContain('small@1.0.0');
  });

  test('an endless installation is killed at the deadline and leaves no files', async () => {
    await using registry = await openRegistry();
    await using packager = await openClient(jail, registry.url, { deadlineMs: 5_000 });
    registry.answer('/silent', () => {});
    await expect(packager.settle('silent')).rejects.toMatchObject({
      status: 400,
      message: 'The packages took too long to be installed.',
    });
    await packager.client.close();
    expect(readdirSync(packager.work)).toEqual([]);
  });
});

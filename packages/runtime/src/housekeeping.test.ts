import { readdir } from 'node:fs/promises';
import { expect, test } from '@jest/globals';
import { createEmbeddedBlob } from '@wellspring/blob/embedded';
import { silentLog } from '@wellspring/core/log';
import { Unavailable } from '@wellspring/core/unavailable';
import { eventually } from '@wellspring/testing/eventually';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { openPorts } from '@wellspring/testing/service-harness';
import { tempDir } from '@wellspring/testing/temp-dir';
import { readConfig } from './config.ts';
import { housekeepingWorker } from './housekeeping.ts';

test('expired files are removed also while rows cannot be', async () => {
  const [ports, dir, clock] = [openPorts(), await tempDir(), createFakeClock()];
  const blob = createEmbeddedBlob(dir.path, { clock });
  await blob.put(Buffer.from('file'), { ttlMs: 1_000 });
  const files = async () => (await readdir(dir.path, { recursive: true })).length;
  const before = await files();
  await clock.advance(2_000);
  const failures: unknown[] = [];
  const log = { ...silentLog, warn: (fields: object) => void failures.push(fields) };
  const store = {
    ...ports.store,
    collection(): never {
      throw new Unavailable('out of reach');
    },
  };
  const config = { ...readConfig({ env: {} }), adminKey: null };
  const stopping = new AbortController();
  const running = housekeepingWorker({ store, blob, clock, log, config }).run(stopping.signal);
  await eventually(async () => (await files()) < before);
  await eventually(() => failures.length === 1);
  expect(failures).toEqual([{ error: expect.stringContaining('out of reach') }]);
  stopping.abort();
  await running;
  await blob.close();
  await ports.close();
  await dir.remove();
});

test('expired files are removed every ten minutes, also after the clock was set back', async () => {
  const [ports, dir, fake] = [openPorts(), await tempDir(), createFakeClock()];
  let back = 0;
  const clock = { ...fake, now: () => fake.now() - back };
  const blob = createEmbeddedBlob(dir.path, { clock });
  const config = { ...readConfig({ env: {} }), adminKey: null };
  const stopping = new AbortController();
  const worker = housekeepingWorker({ store: ports.store, blob, clock, log: silentLog, config });
  const running = worker.run(stopping.signal);
  for (const day of [0, 24 * 3_600_000]) {
    await fake.asleep();
    back = day;
    const id = await blob.put(Buffer.from('file'), { ttlMs: 1_000 });
    await fake.advance(10 * 60_000);
    await eventually(async () =>
      (await readdir(dir.path, { recursive: true })).every((file) => !file.includes(id)),
    );
  }
  stopping.abort();
  await running;
  await blob.close();
  await ports.close();
  await dir.remove();
});

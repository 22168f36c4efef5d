import { expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { noMetrics } from '@wellspring/core/metrics';
import { readConfig } from '@wellspring/runtime/config';
import { openEmbedded } from '@wellspring/runtime/infra-embedded';
import { openMemory } from '@wellspring/runtime/memory';
import { timers } from '@wellspring/store/collections/sources';
import { tempDir } from '@wellspring/testing/temp-dir';
import { dropIndexes } from './drop-indexes.ts';

test('the command drops the indexes that this version does not declare, and only those', async () => {
  await using directory = await tempDir();
  const config = readConfig({ env: { WELLSPRING_DATA_DIR: directory.path } });
  const newer = openEmbedded(config, {
    clock: systemClock,
    log: silentLog,
    metrics: noMetrics,
    memory: openMemory(config, noMetrics),
  });
  newer.store.collection({ ...timers, indexes: [...timers.indexes, { fields: ['prop'] }] });
  await newer.close();
  const said: string[] = [];
  for (let i = 0; i < 2; i += 1) {
    await dropIndexes({ config, log: silentLog, say: (text) => said.push(text) });
  }
  expect(said).toEqual(['timers: i_timers_prop']);
});

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { tempDir } from '@wellspring/testing/temp-dir';
import { readConfig } from './config.ts';
import { openInfra } from './infra.ts';
import { MOVED, MOVING } from './infra-embedded.ts';

const dir = forEachTest(tempDir);

test.each([
  [MOVED, 'was moved'],
  [MOVING, 'was interrupted'],
])('the platform does not start from a data directory with the file %s', async (mark, message) => {
  writeFileSync(join(dir.path, mark), '');
  const started = openInfra(readConfig({ env: { WELLSPRING_DATA_DIR: dir.path } }), silentLog);
  await expect(started).rejects.toThrow(message);
});

import { expect, test } from '@jest/globals';
import type { Config } from '@wellspring/runtime/config';
import { sources } from '@wellspring/store/collections/sources';
import { createCatalog } from './catalog.ts';
import { ECHO, usePlatform } from './platform.fixture.ts';

const t = usePlatform();

test('a deployment is loaded for its own source only, also from the cache', async () => {
  const [own, other] = [await t.deploy(ECHO), await t.deploy(ECHO)];
  const { deployment_id } = (await t.store.collection(sources).get(own))!;
  const catalog = createCatalog({ ...t, config: {} as Config });
  for (let attempt = 0; attempt < 2; attempt += 1) {
    expect(await catalog.load(other, deployment_id)).toBeUndefined();
    expect((await catalog.load(own))!.deployment.id).toBe(deployment_id);
  }
});

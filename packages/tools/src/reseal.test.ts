import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import type { Definition } from '@wellspring/contract/definition';
import { silentLog } from '@wellspring/core/log';
import { createSeal } from '@wellspring/core/seal';
import { readConfig } from '@wellspring/runtime/config';
import { openRootKey } from '@wellspring/runtime/root-key';
import { openValues, sealValues } from '@wellspring/runtime/secret-values';
import { accounts } from '@wellspring/store/collections/accounts';
import { idempotencyKeys } from '@wellspring/store/collections/idempotency';
import { deployments } from '@wellspring/store/collections/sources';
import { webhooks } from '@wellspring/store/collections/webhooks';
import { OWNER, webhookRow } from '@wellspring/testing/rows';
import { tempDir } from '@wellspring/testing/temp-dir';
import { openPorts } from './open-ports.ts';
import { reseal } from './reseal.ts';

const keyOf = (name: string) => `${name} root key of thirty-two characters`;
const [OLD, NEW, LOST] = [keyOf('old'), keyOf('new'), keyOf('lost')];
const PROPS = ['token', 'limit'].map((name) => ({ name, type: 'string', secret: true }));

test('the command seals all secrets with the newest root key, which is then the only one that a start needs', async () => {
  await using directory = await tempDir();
  const configOf = (keys: string) =>
    readConfig({ env: { WELLSPRING_DATA_DIR: directory.path, WELLSPRING_SECRET_KEY: keys } });
  const open = async (keys: string) => {
    const ports = await openPorts(configOf(keys), silentLog, 'test');
    const { seal } = await openRootKey(ports.store, configOf(keys)).catch(async (error) => {
      await ports.close();
      throw error;
    });
    return { ...ports, seal };
  };

  const before = await open(OLD);
  const { store, seal } = before;
  const common = { owner_id: OWNER, user_id: OWNER, created_at: 0, updated_at: 0 };
  const hook = webhookRow({ id: 'wh_1', secret: seal.seal('s', 'wh_1'), old_secret: seal.seal('o', 'wh_1') });
  const lost = webhookRow({ id: 'wh_2', secret: createSeal([LOST]).seal('s', 'wh_2') });
  await store.collection(webhooks).insertMany([hook, lost]);
  await store
    .collection(accounts)
    .insert({ ...common, id: 'apn_1', app: 'app', name: '', credentials: seal.seal('{}', 'apn_1') });
  await store.collection(deployments).insert({
    ...{ id: 'd_1', source_id: 'dc_1', component_id: 'sc_1', bundle_id: 'b_1', created_at: 0 },
    definition: { props: PROPS } as unknown as Definition,
    configured_props: sealValues({ seal }, PROPS as never, { token: 'text', limit: 7 }, 'dc_1'),
  });
  const row = { request_hash: '', process: '', created_at_ms: 0 };
  await store.collection(idempotencyKeys).insertMany([
    { ...row, id: 'key_1', response: { status: 200, headers: {}, body: seal.seal('body', 'key_1') } },
    { ...row, id: 'key_2', response: null },
  ]);
  await before.close();

  await (await open(`${NEW},${OLD}`)).close();
  await expect(open(NEW)).rejects.toThrow('pnpm run reseal');
  const said: string[] = [];
  const command = { log: silentLog, say: (text: string) => said.push(text) };
  await expect(reseal({ ...command, config: configOf(NEW) })).rejects.toThrow('lacks a root key');
  for (let n = 0; n < 2; n += 1) await reseal({ ...command, config: configOf(`${NEW},${OLD}`) });
  expect(said).toEqual(
    [1, 0].flatMap((count) => [
      'webhooks: wh_2 cannot be opened with any of the keys.',
      ...['webhooks', 'accounts', 'deployments', 'idempotency_keys'].map((name) => `${name}: ${count} rows`),
    ]),
  );

  const after = await open(NEW);
  const found = (await after.store.collection(webhooks).get('wh_1'))!;
  expect([found.secret, found.old_secret!].map((one) => after.seal.open(one, 'wh_1'))).toEqual(['s', 'o']);
  expect(await after.store.collection(webhooks).get('wh_2')).toEqual(lost);
  const account = (await after.store.collection(accounts).get('apn_1'))!;
  expect(after.seal.open(account.credentials, 'apn_1')).toBe('{}');
  const deployment = (await after.store.collection(deployments).get('d_1'))!;
  expect(openValues(after, deployment)).toEqual({ token: 'text', limit: 7 });
  const [kept, pending] = await after.store.collection(idempotencyKeys).list({ order: 'asc' });
  expect(after.seal.open(kept!.response!.body, 'key_1')).toBe('body');
  expect(pending!.response).toBeNull();
  await after.close();
});

test('a data directory without data is refused and not created: its name may be misspelt', async () => {
  await using directory = await tempDir();
  const dataDir = join(directory.path, 'none');
  const config = readConfig({ env: { WELLSPRING_DATA_DIR: dataDir } });
  await expect(reseal({ config, log: silentLog, say() {} })).rejects.toThrow('holds no data of a platform');
  expect(existsSync(dataDir)).toBe(false);
});

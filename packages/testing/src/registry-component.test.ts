import { beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from './eventually.ts';
import { forSuite } from './lifetimes.ts';
import { platform, usePlatform } from './platform.fixture.ts';
import { orderOf, SHOP_COMPONENT, startShop, TOKEN } from './shop.fixture.ts';

/** A polling component of several files, with an app, an account and the API of a vendor. */

const KEY = 'shop-new-order';
const STARTING_MS = 120_000;

describe.each(['none', 'bubblewrap'])('a component of the registry, in tier %s,', (tier) => {
  usePlatform({ env: { WELLSPRING_ISOLATION: tier, WELLSPRING_CODE_ALLOW_NETWORKS: '127.0.0.0/8' } });
  const shop = forSuite(startShop);
  let authProvisionId: string;
  const newAccount = async (oauth_access_token: string) => {
    const credentials = { oauth_access_token, base_url: shop.url };
    return (await platform.client.createAccount({ app: 'shop', name: 'Shop', credentials })).id;
  };
  beforeAll(async () => {
    await platform.operator.operatorPublish(SHOP_COMPONENT);
    authProvisionId = await newAccount(TOKEN);
  }, STARTING_MS);

  const deploy = (account = authProvisionId, status = 'paid') =>
    platform.client.createSource({
      key: KEY,
      configured_props: { shop: { authProvisionId: account }, status },
    });
  const run = async (id: string) => {
    const { run_id } = await platform.client.runSource({ id });
    return eventually(async () => {
      const found = await platform.client.getRun({ id: run_id });
      return found.state !== 'running' && found;
    });
  };
  const emitted = async (id: string) =>
    (await platform.client.listSourceEvents({ id, limit: 100 })).data.map(({ event, metadata }) => [
      metadata.id,
      metadata.summary,
      metadata.ts,
      event,
    ]);
  const shown = (...ids: number[]) =>
    ids.map((id) => [id, `Order ${id}`, Date.parse(orderOf(id).placed_at), orderOf(id)]);

  test('polls with its account: history on deploy, pages, waits after a 429, and no event twice', async () => {
    shop.orders = [1, 2, 3].map((id) => orderOf(id)).concat(orderOf(4, 'open'));
    const { id } = await deploy();
    expect(await emitted(id)).toEqual(shown(3, 2));
    expect(await run(id)).toMatchObject({ state: 'ok', emitted: 1, deduped: 2 });
    shop.orders.push(...[5, 6, 7, 8, 9].map((order) => orderOf(order)));
    shop.requests.length = 0;
    shop.busy = 2;
    expect(await run(id)).toMatchObject({ state: 'ok', emitted: 5, deduped: 1 });
    expect(await emitted(id)).toEqual([...shown(9, 8, 7, 6, 5), ...shown(1, 3, 2)]);
    // Two refusals, then three pages of the orders since the newest one.
    expect(shop.requests.map((path) => new URL(path, shop.url).searchParams.get('cursor'))).toEqual([
      ...[null, null, null],
      ...['2', '4'],
    ]);
    expect(await run(id)).toMatchObject({ state: 'ok', emitted: 0, deduped: 1 });
    expect(await platform.client.getSourceDb({ id })).toEqual({ since: orderOf(9).placed_at });
  });

  test('asks the API for options', async () => {
    const configured_props = { shop: { authProvisionId } };
    const input = { key: KEY, prop_name: 'status', configured_props };
    const { options } = await platform.client.configureComponent(input);
    expect(options).toEqual([{ label: 'Paid', value: 'paid' }]);
  });

  test('is refused with its own message, or that of the API, when it cannot be deployed', async () => {
    await expect(deploy(authProvisionId, 'unknown')).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining('There is no such status'),
    });
    const wrong = await newAccount('another_token');
    await expect(deploy(wrong)).rejects.toMatchObject({
      status: 400,
      message: expect.stringMatching(/401|Bad token/),
    });
  });

  test('fails visibly when the credentials are gone, and the token is in no record', async () => {
    const account = await newAccount(TOKEN);
    const { id } = await deploy(account);
    await platform.client.updateAccount({
      id: account,
      credentials: { oauth_access_token: 'revoked_token_01', base_url: shop.url },
    });
    expect(await run(id)).toMatchObject({ state: 'failed' });
    const errors = await platform.client.listSourceErrors({ id, expand: 'event' });
    expect(errors.data).toHaveLength(1);
    expect(JSON.stringify(errors)).not.toContain('revoked_token_01');
  });
});

import { expect, test } from '@jest/globals';
import { CALLS, type ConfigureCall, configuredFor } from '@wellspring/contract/calls';
import { accounts } from '@wellspring/store/collections/accounts';
import { bundles } from '@wellspring/store/collections/components';
import { events } from '@wellspring/store/collections/events';
import { states } from '@wellspring/store/collections/states';
import { OWNER } from '@wellspring/testing/rows';
import { seal } from '@wellspring/testing/service-harness';
import { usePlatform } from './platform.fixture.ts';

const t = usePlatform();

const CODE = `const app = { type: 'app', app: 'lists' };
export default {
  name: 'Configured',
  props: {
    app,
    db: '$.service.db',
    http: { type: '$.interface.http' },
    secret: { type: 'string', secret: true, optional: true },
    mode: { type: 'string', reloadProps: true },
    item: {
      type: 'string',
      options({ page }) {
        this.db.set('seen', page);
        this.$emit('never stored');
        if (page === 7) process.exit(0);
        if (page === 8) return [{ get label() { throw new Error('unreadable'); } }];
        if (page === 9) throw new Error('refused ' + this.secret + ' ' + this.app.$auth.token);
        if (page === 10) throw new TypeError('fetch failed', { cause: new Error('no route for ' + this.secret) });
        return [this.mode + page + ' ' + typeof this.app.$auth.token];
      },
    },
  },
  additionalProps() {
    if (this.mode === 'none') null.length;
    return { [this.mode]: { type: 'string', label: 'Dynamic' } };
  },
  run() {},
};`;

async function configure(
  call: ConfigureCall['message']['call'],
  values: object = {},
  owner_id = OWNER,
  prepared = t.prepare(CODE),
): Promise<ConfigureCall['answer']> {
  const { bundle_id, bundle, definition } = await prepared;
  const sealed = seal.seal(JSON.stringify({ mode: 'rich', ...values }), configuredFor(owner_id));
  const message = { owner_id, bundle_id, bundle, props: definition.props, values: sealed, call };
  return (await t.call.request(CALLS.configure, message, { deadlineMs: 30_000 })) as ConfigureCall['answer'];
}

const item = (page = 0) => ({ kind: 'options', prop: 'item', page, prevContext: {} }) as const;

test('options and dynamic props come from the code; nothing is stored', async () => {
  expect(await configure(item(3))).toEqual({
    options: { options: [{ label: 'rich3 undefined', value: 'rich3 undefined' }], context: null },
  });
  const { props } = await configure({ kind: 'props' });
  expect(props?.at(-1)).toEqual({ name: 'rich', type: 'string', label: 'Dynamic' });
  for (const collection of [events, states, bundles] as const)
    expect(await t.store.collection(collection as typeof events).count()).toBe(0);
});

test('what the code throws is a 400 with its message, cause and place, secrets and credentials masked', async () => {
  const credentials = seal.seal('{"token":"token of an account"}', 'apn_0000000001');
  const row = { user_id: OWNER, app: 'lists', name: '', credentials, created_at: 0, updated_at: 0 };
  await t.store.collection(accounts).insert({ id: 'apn_0000000001', owner_id: OWNER, ...row });
  const values = { secret: 'hush-hush', app: { authProvisionId: 'apn_0000000001' } };
  expect((await configure(item(), values)).options?.options[0]?.value).toBe('rich0 string');
  await expect(configure(item(9), values)).rejects.toMatchObject({
    status: 400,
    code: 'configuration_failed',
    message: 'The options of item failed: refused ******** ******** (component.js:17:31)',
  });
  await expect(configure(item(10), values)).rejects.toMatchObject({
    message: 'The options of item failed: fetch failed (Error: no route for ********) (component.js:18:32)',
  });
  await expect(configure({ kind: 'props' }, { mode: 'none' })).rejects.toMatchObject({
    message: "additionalProps failed: Cannot read properties of null (reading 'length') (component.js:24:36)",
  });
  const other = await configure(item(), values, 'u_0000000002');
  expect(other.options?.options[0]?.value).toBe('rich0 undefined');
});

test('code that ends its process or returns something unreadable is a 400', async () => {
  for (const page of [7, 8])
    await expect(configure(item(page))).rejects.toMatchObject({ status: 400, code: 'configuration_failed' });
});

test('code that is not saved is refused without memory for it, and gives back what it took', async () => {
  const { deployments } = t.memory;
  const prepared = await t.prepare(CODE);
  const configurePrepared = (page: number) => configure(item(page), {}, OWNER, Promise.resolve(prepared));
  const release = deployments.tryTake(deployments.total)!;
  await expect(configurePrepared(0)).rejects.toMatchObject({ status: 503 });
  release();
  const taken: number[] = [];
  t.faults.execute = () => void taken.push(deployments.used);
  await configurePrepared(0);
  await expect(configurePrepared(7)).rejects.toMatchObject({ status: 400 });
  expect(taken.map((used) => used > CODE.length / 2)).toEqual([true, true]);
  expect(deployments.used).toBe(0);
});

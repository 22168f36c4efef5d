import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { createHold } from '@wellspring/core/byte-budget';
import { bundles, components, publishedKeys } from '@wellspring/store/collections/components';
import { users } from '@wellspring/store/collections/users';
import { startHttpServer } from '@wellspring/testing/http';
import { ALICE, BOB, user } from '@wellspring/testing/service-harness';
import { keyed, refusal, useBed } from './bed.fixture.ts';

const { bed, post, get } = useBed();

describe('saving', () => {
  test('the same code is the same component of its owner, and is evaluated once for everybody', async () => {
    const first = await post(keyed(null));
    expect(await post(keyed(null))).toEqual(first);
    expect(first.code_hash).toBe(createHash('sha256').update(keyed(null)).digest('hex'));
    const other = await post(keyed(null), BOB);
    expect(other.id).not.toBe(first.id);
    const org = await post(keyed(null), ALICE, { org_id: 'o_0000000001' });
    expect(new Set([first.id, other.id, org.id]).size).toBe(3);
    expect(bed.evaluated).toHaveLength(1);
    expect(await bed.store.collection(bundles).count()).toBe(1);
  });

  test('posted many times at once, it is still one component, evaluated once', async () => {
    const made = await Promise.all(Array.from({ length: 10 }, () => post(keyed('at-once', '1.0.0'))));
    expect(new Set(made.map(({ id }) => id)).size).toBe(1);
    expect(await bed.store.collection(components).count()).toBe(1);
    expect(bed.evaluated).toHaveLength(1);
    expect((await get('at-once')).id).toBe(made[0]!.id);
  });

  test('refused code is not saved, and is checked once more when it is posted again', async () => {
    for (let i = 0; i < 2; i++) await expect(post('export default {')).rejects.toMatchObject({ status: 400 });
    expect(bed.evaluated).toHaveLength(2);
    expect(await bed.store.collection(components).count()).toBe(0);
  });

  test('without code, the error names the parameters of which one is needed', async () => {
    await expect(bed.invoke('createComponent', {}, {})).rejects.toMatchObject({
      code: 'missing_parameter',
      param: 'component_code',
      message: 'One of component_code and component_url is required.',
    });
    for (const name of ['configureComponent', 'listComponentProps', 'testComponent'] as const) {
      await expect(bed.invoke(name, {}, { prop_name: 'item' })).rejects.toMatchObject({
        code: 'missing_parameter',
        param: 'component_id',
        message: expect.stringMatching(/^One of component_id, component_code, component_url and key /),
      });
    }
  });

  test('refused code names the parameter that contains or locates it', async () => {
    await using server = await startHttpServer((_req, res) => void res.end('export default {'));
    for (const input of [
      { component_code: 'export default {' },
      { component_code: 'export default {', component_url: 'https://example.com/x.js' },
      { component_url: `${server.url}/x.js` },
    ]) {
      const refused = { status: 400, code: 'invalid_component', param: Object.keys(input)[0] };
      await expect(bed.invoke('createComponent', {}, input)).rejects.toMatchObject(refused);
      await expect(bed.invoke('listComponentProps', {}, input)).rejects.toMatchObject(refused);
    }
  });

  test.each([
    ['nothing', {}, 'component_code'],
    ['null', { component_code: null }, 'component_code'],
    ['empty code', { component_code: '' }, 'component_code'],
    ['an empty URL', { component_url: '' }, 'component_url'],
    ['an endless URL', { component_url: `http://example.com/${'x'.repeat(5000)}` }, 'component_url'],
  ])('%s is refused', async (_what, input, param) => {
    await expect(bed.invoke('createComponent', {}, input)).rejects.toMatchObject(refusal(400, param));
  });

  test('when its owner is being deleted, neither the component nor its keys stay', async () => {
    await post(keyed('old', '1.0.0'));
    await bed.store.collection(users).patch(ALICE.user_id, { deleting: true });
    // Has removed the keys, and not yet the components.
    await bed.store.collection(publishedKeys).removeWhere({ owner_id: ALICE.user_id });
    await expect(post(keyed('old', '1.0.0'))).rejects.toMatchObject(refusal(404));
    expect(await bed.store.collection(publishedKeys).count()).toBe(0);
    await expect(post(keyed('new', '1.0.0'))).rejects.toMatchObject(refusal(404));
    expect(await bed.store.collection(components).count()).toBe(1);
  });

  test('only for an organization one is a member of', async () => {
    await expect(post(keyed(null), BOB, { org_id: 'o_0000000001' })).rejects.toMatchObject(
      refusal(403, 'org_id'),
    );
  });

  test('what stands at a URL is saved with its modules; other modules make another component', async () => {
    const main = '{"name":"From a URL"}\nimport "./words.mjs";';
    const files: Record<string, string> = { '/main.mjs': main, '/words.mjs': 'one' };
    await using server = await startHttpServer((req, res) => res.end(files[req.url!] ?? ''));
    const origin = server.url;
    const fetched = await bed.invoke('createComponent', {}, { component_url: `${origin}/main.mjs` });
    const code_hash = createHash('sha256').update(main).digest('hex');
    expect(fetched).toMatchObject({ code: main, code_hash, component_url: `${origin}/main.mjs` });
    const again = () => bed.invoke('createComponent', {}, { component_url: `${origin}/main.mjs` });
    expect((await again()).id).toBe(fetched.id);
    files['/words.mjs'] = 'two';
    expect((await again()).id).not.toBe(fetched.id);
    const row = await bed.store.collection(components).get(fetched.id);
    expect(JSON.parse(row!.modules)).toEqual({ [`${origin}/words.mjs`]: 'one' });
  });

  test('what is fetched takes memory of its request, or of its owner until its component is saved', async () => {
    await using server = await startHttpServer((_req, res) => res.end(keyed(null)));
    const input = { component_url: `${server.url}/main.mjs` };
    const { api } = bed.memory;
    const hold = createHold(api);
    await bed.invoke('createComponent', {}, input, ALICE, hold);
    const taken = api.used;
    expect(taken).toBeGreaterThanOrEqual(keyed(null).length);
    await bed.invoke('listComponentProps', {}, input, ALICE, hold);
    expect(api.used).toBeGreaterThan(taken);
    hold.release();
    await bed.resolve(input);
    expect(api.used).toBe(0);
    const release = api.tryTake(api.total)!;
    await expect(bed.resolve(input)).rejects.toMatchObject(refusal(503));
    release();
  });

  test('with code given, the URL is only kept', async () => {
    const made = await post(keyed(null), ALICE, { component_url: 'http://127.0.0.1:1/never.mjs' });
    expect(made.component_url).toBe('http://127.0.0.1:1/never.mjs');
  });

  test('the URL of known code is that of the newest post that names one', async () => {
    const first = await post(keyed(null));
    const urls = ['http://127.0.0.1:1/one.mjs', 'http://127.0.0.1:1/two.mjs'];
    for (const component_url of urls) {
      expect(await post(keyed(null), ALICE, { component_url })).toMatchObject({
        id: first.id,
        component_url,
      });
      expect(await get(first.id)).toMatchObject({ component_url });
    }
    expect(await post(keyed(null))).toMatchObject({ component_url: urls[1] });
  });
});

describe('keys', () => {
  test('the newest post wins, also when it is old code', async () => {
    const one = await post(keyed('mine', '2.0.0', 'One'));
    const two = await post(keyed('mine', '1.0.0', 'Two'));
    expect((await get('mine')).id).toBe(two.id);
    await post(keyed('mine', '2.0.0', 'One'));
    expect((await get('mine')).id).toBe(one.id);
    expect((await get('mine@1.0.0')).id).toBe(two.id);
    await expect(get('mine@3.0.0')).rejects.toMatchObject(refusal(404));
  });

  test('belong to an owner: oneself, or the organization named', async () => {
    const own = await post(keyed('shared', '1', 'Own'));
    const org = await post(keyed('shared', '1', 'Org'), ALICE, { org_id: 'o_0000000001' });
    expect((await get('shared')).id).toBe(own.id);
    expect((await get('shared', { org_id: 'o_0000000001' })).id).toBe(org.id);
    expect(await bed.resolve({ key: 'shared' })).toBe(own.id);
    expect(await bed.resolve({ key: 'shared', owner_id: 'o_0000000001' })).toBe(org.id);
    await expect(get('shared', {}, BOB)).rejects.toMatchObject(refusal(404));
  });

  test.each(['test', 'configure', 'props'])(
    'the key %s is refused: its path below /components belongs to a call',
    async (key) => {
      await expect(post(keyed(key))).rejects.toMatchObject(refusal(400, 'component_code'));
      await expect(post(keyed(key, '1.0.0'))).rejects.toMatchObject({
        message: expect.stringContaining(key),
      });
      expect(await bed.store.collection(components).count()).toBe(0);
      // It is not published.
      expect(await bed.resolve({ component_code: keyed(key) })).toMatch(/^sc_/);
      // `GET /components/registry` belongs to no call.
      expect(await post(keyed('registry'))).toMatchObject({ key: 'registry' });
    },
  );

  test('code given to a source takes no key', async () => {
    const id = await bed.resolve({ component_code: keyed('quiet', '1.0.0') });
    await expect(get('quiet')).rejects.toMatchObject(refusal(404));
    await expect(bed.resolve({ key: 'quiet' })).rejects.toMatchObject(refusal(404));
    expect((await post(keyed('quiet', '1.0.0'))).id).toBe(id);
    expect(await bed.resolve({ key: 'quiet' })).toBe(id);
  });
});

describe('ids', () => {
  test('of one’s own and of one’s organizations are found, others look unknown', async () => {
    const own = await post(keyed(null, '', 'Own'));
    const org = await post(keyed(null, '', 'Org'), ALICE, { org_id: 'o_0000000001' });
    expect(await get(own.id)).toEqual(own);
    expect((await get(org.id)).id).toBe(org.id);
    expect((await get(org.id, {}, user('u_0000000003', 'o_0000000001'))).id).toBe(org.id);
    for (const id of [own.id, org.id, 'sc_0000000000', 'sc_', 'no-such-key', '']) {
      await expect(get(id, {}, BOB)).rejects.toMatchObject(refusal(404));
      const message = { owner_id: 'u_0000000002', reader_ids: ['u_0000000002'], component_id: id };
      await expect(bed.resolve(message)).rejects.toMatchObject(refusal(id === '' ? 400 : 404));
    }
  });
});

describe('resolving', () => {
  test('takes component_id before code, code before key, key before URL', async () => {
    const byId = await post(keyed(null, '', 'Id'));
    const byKey = await post(keyed('key', '', 'Key'));
    const component_url = 'http://127.0.0.1:1/never.mjs';
    const component_code = keyed(null, '', 'Code');
    const all = { component_id: byId.id, component_code, key: 'key', component_url };
    expect(await bed.resolve(all)).toBe(byId.id);
    const byCode = await bed.resolve({ ...all, component_id: null });
    expect((await get(byCode)).code).toBe(component_code);
    expect(await bed.resolve({ key: 'key', component_url })).toBe(byKey.id);
    await expect(bed.resolve({ component_url })).rejects.toMatchObject(refusal(400, 'component_url'));
    await expect(bed.resolve({})).rejects.toMatchObject(refusal(400));
  });

  test.each(['component_id', 'component_code', 'key', 'component_url'])(
    'refuses a %s that is not a text',
    async (param) => {
      for (const value of [42, [], { $gt: '' }, ''])
        await expect(bed.resolve({ [param]: value })).rejects.toMatchObject(refusal(400, param));
    },
  );
});

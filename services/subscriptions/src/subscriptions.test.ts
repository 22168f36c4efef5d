import { beforeEach, describe, expect, test } from '@jest/globals';
import { LIMITS } from '@wellspring/contract/limits';
import type { Principal } from '@wellspring/contract/principal';
import type { Service } from '@wellspring/runtime/service';
import { deleteWebhookRows } from '@wellspring/store/collections/delete-webhook';
import { sources } from '@wellspring/store/collections/sources';
import { autoSubscriptions, subscriptions } from '@wellspring/store/collections/subscriptions';
import { webhooks } from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { numbers } from '@wellspring/testing/numbers';
import { OWNER, sourceRow, subscriptionRow, webhookRow } from '@wellspring/testing/rows';
import { ALICE, BOB, callApi, ORG, useHarness } from '@wellspring/testing/service-harness';
import { createSubscriptionsService } from './service.ts';

const t = useHarness(createFakeClock);
let service: Service;
beforeEach(() => {
  service = createSubscriptionsService(t);
});

const api = (method: string, query: Record<string, string>, as: Principal = ALICE, path = '/subscriptions') =>
  callApi(service, method, `${path}?${new URLSearchParams(query)}`, { as });

async function source(owner_id: string = OWNER): Promise<string> {
  const row = sourceRow({ owner_id });
  await t.store.collection(sources).insert(row);
  return row.id;
}

async function webhook(owner_id: string = OWNER): Promise<string> {
  const row = webhookRow({ owner_id });
  await t.store.collection(webhooks).insert(row);
  return row.id;
}

describe('creating', () => {
  test('creates one subscription per triple, also concurrently', async () => {
    const triple = { emitter_id: await source(), listener_id: await webhook() };
    const answers = await Promise.all(Array.from({ length: 20 }, () => api('POST', triple)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    const [first] = answers.map(({ json }) => json.data);
    expect(first).toEqual({
      ...triple,
      id: expect.stringMatching(/^sub_/),
      event_name: '',
      created_at: 1_700_000_000,
    });
    expect(new Set(answers.map(({ json }) => json.data.id)).size).toBe(1);
    expect(await t.store.collection(subscriptions).count()).toBe(1);
    const named = await api('POST', { ...triple, event_name: 'orders' });
    expect(named.json.data.id).not.toBe(first.id);
  });

  test('is refused beyond the limit of its owner', async () => {
    const [emitter_id, listener_id] = [await source(), await webhook()];
    const rows = numbers(LIMITS.subscriptions).map((n) =>
      subscriptionRow({ emitter_id, listener_id, event_name: `channel ${n}` }),
    );
    await t.store.collection(subscriptions).insertMany(rows);
    const { status, json } = await api('POST', { emitter_id, listener_id });
    expect([status, json.code]).toEqual([409, 'limit_reached']);
    const known = await api('POST', { emitter_id, listener_id, event_name: 'channel 7' });
    expect([known.status, known.json.data.id]).toEqual([200, rows[7]!.id]);
    const others = { emitter_id: await source('u_0000000002'), listener_id: await webhook('u_0000000002') };
    expect((await api('POST', others, BOB)).status).toBe(200);
  });

  test('leaves no row if an end is deleted meanwhile', async () => {
    const ends = { emitter_id: await source(), listener_id: await webhook() };
    const rows = t.store.collection(subscriptions);
    const deleteWebhook = async () => {
      await t.store.collection(webhooks).remove(ends.listener_id);
      await rows.removeWhere({ listener_id: ends.listener_id });
    };
    const store: Store = {
      ...t.store,
      collection: (definition) => {
        const found = t.store.collection(definition);
        const insert: typeof found.insert = async (row) => {
          await deleteWebhook();
          await found.insert(row);
        };
        return { ...found, insert };
      },
    };
    service = createSubscriptionsService({ ...t, store });
    expect((await api('POST', ends)).status).toBe(404);
    expect(await rows.count()).toBe(0);
  });

  test.each(['/subscriptions', '/auto_subscriptions'])(
    '%s are refused during the deletion of a webhook, which has removed the others',
    async (path) => {
      const listener_id = await webhook();
      const input = { emitter_id: await source(), listener_id, event_name: '$errors' };
      let answer: { status: number } | undefined;
      const store: Store = {
        ...t.store,
        collection: (definition) => {
          const found = t.store.collection(definition);
          const remove: typeof found.remove = async (id) => {
            answer = await api('POST', input, ALICE, path);
            return found.remove(id);
          };
          return { ...found, remove };
        },
      };
      expect(await deleteWebhookRows(store, listener_id)).toBe(true);
      expect(answer).toMatchObject({ status: 404 });
      for (const rows of [subscriptions, autoSubscriptions] as const)
        expect(await t.store.collection(rows as typeof subscriptions).count()).toBe(0);
    },
  );

  test('accepts every emitter and listener that the caller may access', async () => {
    const [own, ofOrg] = [await source(), await source(ORG)];
    for (const emitter_id of [own, ofOrg, 'dc_*', 'p_*', ALICE.user_id, ORG]) {
      for (const listener_id of [own, await webhook(), await webhook(ORG)]) {
        expect((await api('POST', { emitter_id, listener_id })).status).toBe(200);
      }
    }
  });

  test('returns 404 for unknown emitters and listeners and those of other tenants', async () => {
    const [own, hook] = [await source(), await webhook()];
    const [foreign, foreignHook] = [await source(BOB.user_id), await webhook(BOB.user_id)];
    for (const emitter_id of [foreign, BOB.user_id, 'o_0000000009', 'dc_0000000000', 'p_0000000000', 'dc_']) {
      expect([emitter_id, (await api('POST', { emitter_id, listener_id: hook })).status]).toEqual([
        emitter_id,
        404,
      ]);
    }
    for (const listener_id of [foreign, foreignHook, 'wh_0000000000', 'dc_0000000000', 'p_0000000000']) {
      expect([listener_id, (await api('POST', { emitter_id: own, listener_id })).status]).toEqual([
        listener_id,
        404,
      ]);
    }
    const strange = await api('POST', { emitter_id: own, listener_id: hook, org_id: 'o_0000000009' });
    expect(strange).toMatchObject({ status: 403, json: { param: 'org_id' } });
  });

  test.each([
    ['emitter_id', '*'],
    ['emitter_id', 'dc_a*'],
    ['emitter_id', 'p_**'],
    ['emitter_id', 'wh_*'],
    ['emitter_id', 'nonsense'],
    ['emitter_id', 'sc_0000000000'],
    ['emitter_id', ''],
    ['listener_id', 'dc_*'],
    ['listener_id', 'wh_*'],
    ['listener_id', 'u_0000000001'],
    ['listener_id', ''],
    ['event_name', 'n'.repeat(257)],
    ['event_name', 'é'.repeat(129)],
  ])('refuses %s %j', async (param, value) => {
    const triple = { emitter_id: await source(), listener_id: await webhook() };
    expect(await api('POST', { ...triple, [param]: value })).toMatchObject({ status: 400, json: { param } });
  });

  test('takes a channel name of 256 bytes', async () => {
    const triple = { emitter_id: await source(), listener_id: await webhook() };
    for (const event_name of ['n'.repeat(256), 'é'.repeat(128)]) {
      expect((await api('POST', { ...triple, event_name })).json.data.event_name).toBe(event_name);
    }
  });
});

describe('lists and deletions', () => {
  const ids = async (...call: Parameters<typeof api>) =>
    (await api(...call)).json.data.map(({ id }: { id: string }) => id);

  test("apply to the given organization, else to the user's subscriptions", async () => {
    const triple = { emitter_id: await source(ORG), listener_id: await webhook(ORG) };
    const own = (await api('POST', triple)).json.data.id;
    const ofOrg = (await api('POST', { ...triple, org_id: ORG })).json.data.id;
    expect(await ids('GET', {}, ALICE, '/users/me/subscriptions')).toEqual([own]);
    expect(await ids('GET', {}, ALICE, `/orgs/${ORG}/subscriptions`)).toEqual([ofOrg]);
    expect(await ids('GET', { emitter_id: triple.emitter_id })).toEqual([own]);
    expect(await ids('GET', { org_id: ORG })).toEqual([ofOrg]);
    expect((await api('GET', {}, BOB, `/orgs/${ORG}/subscriptions`)).status).toBe(404);
    expect((await api('GET', {}, ALICE, `/orgs/${ALICE.user_id}/subscriptions`)).status).toBe(404);
    expect((await api('DELETE', { ...triple, org_id: ORG })).status).toBe(204);
    expect((await api('DELETE', { ...triple, org_id: ORG })).status).toBe(404);
    expect(await ids('GET', {})).toEqual([own]);
    expect((await api('DELETE', triple)).status).toBe(204);
  });

  test('an absent event_name means the default channel when deleting, any channel when listing', async () => {
    const triple = { emitter_id: await source(), listener_id: await webhook() };
    const named = (await api('POST', { ...triple, event_name: 'orders' })).json.data.id;
    expect((await api('DELETE', triple)).status).toBe(404);
    const plain = (await api('POST', triple)).json.data.id;
    expect(await ids('GET', { listener_id: triple.listener_id })).toEqual([plain, named]);
    expect(await ids('GET', { listener_id: triple.listener_id, event_name: '' })).toEqual([plain]);
    expect((await api('DELETE', { ...triple, event_name: '' })).status).toBe(204);
    expect(await ids('GET', {})).toEqual([named]);
  });

  test('a subscription of another tenant cannot be deleted', async () => {
    const triple = { emitter_id: await source(), listener_id: await webhook() };
    const { id } = (await api('POST', triple)).json.data;
    expect((await api('DELETE', triple, BOB)).status).toBe(404);
    expect((await api('DELETE', {}, BOB, `/subscriptions/${id}`)).status).toBe(404);
    expect((await api('DELETE', {}, ALICE, `/subscriptions/${id}`)).status).toBe(204);
    expect((await api('DELETE', {}, ALICE, `/subscriptions/${id}`)).status).toBe(404);
  });
});

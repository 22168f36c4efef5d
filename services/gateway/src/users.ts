import {
  createMyApiKey,
  deleteMyApiKey,
  getMe,
  listMyApiKeys,
  listOrgMembers,
} from '@wellspring/contract/endpoints/users';
import type { Principal } from '@wellspring/contract/principal';
import { notFound } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { listPage } from '@wellspring/http/paging';
import { checkMember } from '@wellspring/http/principal';
import type { Deps } from '@wellspring/runtime/deps';
import { members, orgs, type UserRow, usage, usageDay, users } from '@wellspring/store/collections/users';
import { issueApiKey, listApiKeys, revokeApiKey } from './api-keys.ts';

/** Shown as the quota of an account without one. */
const UNLIMITED = Number.MAX_SAFE_INTEGER;

const ownId = (principal: Principal): string => {
  if (principal.kind !== 'user') throw notFound('user');
  return principal.user_id;
};

/** `/users/me`, the caller's own keys, and who else is in an organization. */
export function userRoutes(deps: Pick<Deps, 'store' | 'clock' | 'pubsub'>): Route[] {
  const { store, clock } = deps;

  async function free(user: UserRow) {
    const used = await store.collection(usage).get(`${user.id}/${usageDay(clock.now())}`);
    return {
      daily_compute_time_quota: user.daily_compute_time_quota ?? UNLIMITED,
      daily_compute_time_used: used?.compute_ms ?? 0,
      daily_invocations_quota: user.daily_invocations_quota ?? UNLIMITED,
      daily_invocations_used: used?.invocations ?? 0,
    };
  }

  /** The billing period is the calendar month, UTC. */
  async function paid(user: UserRow) {
    const now = new Date(clock.now());
    const start = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1);
    const end = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1);
    const days = Array.from({ length: Math.round((end - start) / 86_400_000) }, (_, day) =>
      usageDay(start + day * 86_400_000),
    );
    const rows = await store
      .collection(usage)
      .list({ where: { id: { in: days.map((day) => `${user.id}/${day}`) } } });
    return {
      billing_period_start_ts: start / 1000,
      billing_period_end_ts: end / 1000,
      billing_period_invocations: rows.reduce((sum, row) => sum + row.invocations, 0),
    };
  }

  return [
    route(getMe, async ({ principal }) => {
      const user = await store.collection(users).get(ownId(principal));
      if (!user || principal.kind !== 'user') throw notFound('user');
      const memberships = await Promise.all(principal.org_ids.map((id) => store.collection(orgs).get(id)));
      const { id, username, email } = user;
      return {
        id,
        username,
        email,
        orgs: memberships
          .filter((org) => org !== undefined)
          .map((org) => ({ id: org.id, name: org.name, orgname: org.orgname, email: org.email })),
        ...(user.plan === 'paid' ? await paid(user) : await free(user)),
      };
    }),
    route(listOrgMembers, async ({ params: { org_id }, input, principal }) => {
      checkMember(principal, org_id);
      const { data, total_count } = await listPage(store.collection(members), { org_id }, input, 'user_id');
      const ids = data.map(({ user_id }) => user_id);
      const rows = await store.collection(users).list({ where: { id: { in: ids } } });
      return { data: rows.map(({ id, username, email }) => ({ id, username, email })), total_count };
    }),
    route(listMyApiKeys, ({ principal }) => listApiKeys(deps, ownId(principal))),
    route(createMyApiKey, ({ principal, input }) => issueApiKey(deps, ownId(principal), input.name)),
    route(deleteMyApiKey, ({ params, principal }) => revokeApiKey(deps, ownId(principal), params.key_id)),
  ];
}

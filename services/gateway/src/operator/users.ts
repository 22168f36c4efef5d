import {
  operatorCreateApiKey,
  operatorCreateUser,
  operatorDeleteApiKey,
  operatorDeleteUser,
  operatorGetUser,
  operatorListApiKeys,
  operatorListUsers,
  operatorUpdateUser,
} from '@wellspring/contract/endpoints/operator';
import { newId } from '@wellspring/core/ids';
import { conflict, notFound } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { listPage } from '@wellspring/http/paging';
import { removeLostSubscriptions } from '@wellspring/store/collections/subscription-reach';
import { members, type UserRow, users } from '@wellspring/store/collections/users';
import { insertNew } from '@wellspring/store/insert-new';
import { ConflictError, modify } from '@wellspring/store/port';
import { issueApiKey, listApiKeys, revokeApiKey } from '../api-keys.ts';
import { deleteOwner, type OwnerDeps } from './delete-owner.ts';

const presentUser = (row: UserRow) => ({
  id: row.id,
  username: row.username,
  email: row.email,
  plan: row.plan,
  quotas: {
    daily_invocations_quota: row.daily_invocations_quota,
    daily_compute_time_quota: row.daily_compute_time_quota,
  },
  created_at: row.created_at,
  updated_at: row.updated_at,
});

export function operatorUserRoutes(deps: OwnerDeps): Route[] {
  const { store, clock } = deps;
  const rows = store.collection(users);
  const seconds = () => Math.floor(clock.now() / 1000);
  const find = async (id: string) => {
    const user = await rows.get(id);
    if (!user) throw notFound('user', id);
    return user;
  };
  return [
    route(operatorCreateUser, async ({ input }) => {
      const make = (): UserRow => ({
        id: newId('u'),
        username: input.username,
        email: input.email,
        plan: input.plan ?? 'free',
        daily_invocations_quota: input.quotas?.daily_invocations_quota ?? null,
        daily_compute_time_quota: input.quotas?.daily_compute_time_quota ?? null,
        created_at: seconds(),
        updated_at: seconds(),
      });
      const row = await insertNew(rows, make).catch((error: unknown) => {
        if (error instanceof ConflictError)
          throw conflict('username_taken', `The username ${input.username} is taken.`);
        throw error;
      });
      const { api_key } = await issueApiKey(deps, row.id, null);
      return { ...presentUser(row), api_key };
    }),
    route(operatorListUsers, async ({ input }) => {
      const page = await listPage(rows, {}, input);
      return { ...page, data: page.data.map(presentUser) };
    }),
    route(operatorGetUser, async ({ params }) => presentUser(await find(params.id))),
    route(operatorUpdateUser, async ({ params, input }) => {
      const { quotas = {} } = input;
      const row = await modify(rows, params.id, (user) => ({
        ...user,
        email: input.email ?? user.email,
        plan: input.plan ?? user.plan,
        daily_invocations_quota:
          quotas.daily_invocations_quota === undefined
            ? user.daily_invocations_quota
            : quotas.daily_invocations_quota,
        daily_compute_time_quota:
          quotas.daily_compute_time_quota === undefined
            ? user.daily_compute_time_quota
            : quotas.daily_compute_time_quota,
        updated_at: seconds(),
      }));
      if (!row) throw notFound('user', params.id);
      return presentUser(row);
    }),
    route(operatorDeleteUser, async ({ params }) => {
      await find(params.id);
      await store.collection(members).removeWhere({ user_id: params.id });
      await removeLostSubscriptions(store, params.id);
      await deleteOwner(deps, params.id);
    }),
    route(operatorListApiKeys, async ({ params }) => listApiKeys(deps, (await find(params.id)).id)),
    route(operatorCreateApiKey, async ({ params, input }) =>
      issueApiKey(deps, (await find(params.id)).id, input.name),
    ),
    route(operatorDeleteApiKey, async ({ params }) =>
      revokeApiKey(deps, (await find(params.id)).id, params.key_id),
    ),
  ];
}

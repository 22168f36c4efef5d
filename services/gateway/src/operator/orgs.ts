import {
  operatorCreateOrg,
  operatorDeleteMember,
  operatorDeleteOrg,
  operatorGetOrg,
  operatorListOrgs,
  operatorPutMember,
  operatorUpdateOrg,
} from '@wellspring/contract/endpoints/operator';
import { cidrList } from '@wellspring/core/addresses';
import { newId } from '@wellspring/core/ids';
import { conflict, invalidParameter, notFound } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { listPage } from '@wellspring/http/paging';
import { changedTopic } from '@wellspring/pubsub/port';
import { removeLostSubscriptions } from '@wellspring/store/collections/subscription-reach';
import { apiKeys, members, type OrgRow, orgs, users } from '@wellspring/store/collections/users';
import { insertNew } from '@wellspring/store/insert-new';
import { ConflictError, modify } from '@wellspring/store/port';
import { deleteOwner, type OwnerDeps } from './delete-owner.ts';

const presentOrg = (row: OrgRow) => ({
  id: row.id,
  orgname: row.orgname,
  name: row.name,
  email: row.email,
  code_allow_networks: row.code_allow_networks,
  created_at: row.created_at,
  updated_at: row.updated_at,
});

/** @throws Problem 400 for malformed CIDRs */
function checkNetworks(networks: readonly string[] | undefined): void {
  try {
    cidrList(networks ?? []);
  } catch (error) {
    throw invalidParameter('code_allow_networks', `code_allow_networks: ${(error as Error).message}`);
  }
}

export function operatorOrgRoutes(deps: OwnerDeps): Route[] {
  const { store, clock } = deps;
  const rows = store.collection(orgs);
  const memberRows = store.collection(members);
  const seconds = () => Math.floor(clock.now() / 1000);
  const find = async (id: string) => {
    const org = await rows.get(id);
    if (!org) throw notFound('organization', id);
    return org;
  };
  const taken = (orgname: string) => (error: unknown) => {
    if (error instanceof ConflictError) throw conflict('orgname_taken', `The orgname ${orgname} is taken.`);
    throw error;
  };
  return [
    route(operatorCreateOrg, async ({ input }) => {
      const { orgname, name, email, code_allow_networks = [] } = input;
      checkNetworks(code_allow_networks);
      const make = (): OrgRow => ({
        id: newId('o'),
        orgname,
        name,
        email,
        code_allow_networks,
        created_at: seconds(),
        updated_at: seconds(),
      });
      return insertNew(rows, make).catch(taken(orgname));
    }),
    route(operatorListOrgs, async ({ input }) => {
      const page = await listPage(rows, {}, input);
      return { ...page, data: page.data.map(presentOrg) };
    }),
    route(operatorGetOrg, async ({ params }) => presentOrg(await find(params.id))),
    route(operatorUpdateOrg, async ({ params, input }) => {
      const { name, email, orgname, code_allow_networks } = input;
      checkNetworks(code_allow_networks);
      const row = await modify(rows, params.id, (org) => ({
        ...org,
        name: name ?? org.name,
        email: email ?? org.email,
        orgname: orgname ?? org.orgname,
        code_allow_networks: code_allow_networks ?? org.code_allow_networks,
        updated_at: seconds(),
      })).catch(taken(orgname ?? ''));
      if (!row) throw notFound('organization', params.id);
      return presentOrg(row);
    }),
    route(operatorDeleteOrg, async ({ params }) => {
      await find(params.id);
      await memberRows.removeWhere({ org_id: params.id });
      await deleteOwner(deps, params.id);
    }),
    route(operatorPutMember, async ({ params }) => {
      await find(params.id);
      if (!(await store.collection(users).get(params.user_id))) throw notFound('user', params.user_id);
      await memberRows.insertMany([
        { id: `${params.id}/${params.user_id}`, org_id: params.id, user_id: params.user_id },
      ]);
    }),
    route(operatorDeleteMember, async ({ params }) => {
      await find(params.id);
      const removed = await memberRows.remove(`${params.id}/${params.user_id}`);
      // Also of a former member: an earlier request may have been interrupted.
      await removeLostSubscriptions(store, params.user_id);
      if (!removed) throw notFound('member', params.user_id);
      // Ends their streams of the organization.
      for (const key of await store.collection(apiKeys).list({ where: { user_id: params.user_id } }))
        deps.pubsub.publish(changedTopic(key.id));
    }),
  ];
}

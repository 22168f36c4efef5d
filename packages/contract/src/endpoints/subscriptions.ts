import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import { Nothing, Subscription } from '../resources.ts';
import { common, eventName } from './parameters.ts';

const service = 'subscriptions';
const triple = {
  emitter_id: Type.String({ minLength: 1, description: 'dc_…, p_…, dc_*, p_*, or an owner: u_…, o_…' }),
  listener_id: Type.String({ minLength: 1, description: 'wh_…, dc_… or p_…' }),
  event_name: eventName,
};
const query = ['emitter_id', 'listener_id', 'event_name'] as const;

export const createSubscription = defineEndpoint({
  service,
  operationId: 'createSubscription',
  method: 'POST',
  path: '/subscriptions',
  summary:
    'Subscribe a webhook or source to a channel of an emitter; the same triple gives the same subscription',
  description:
    'Every event of the channel is sent to the listener from now on. An emitter may be a source or workflow, a glob of ids, a user or an organization.',
  input: Type.Object({ ...triple, ...common }),
  query,
  output: Subscription,
  envelope: 'single',
  problems: [403, 404, 409],
});

export const deleteSubscription = defineEndpoint({
  service,
  operationId: 'deleteSubscription',
  method: 'DELETE',
  path: '/subscriptions',
  summary: 'Remove a subscription by its triple',
  description:
    'Without event_name: the subscription to the default channel. Deliveries under way are completed.',
  input: Type.Object({ ...triple, ...common }),
  output: Nothing,
  envelope: 'none',
  status: 204,
  problems: [403, 404],
});

export const deleteSubscriptionById = defineEndpoint({
  service,
  operationId: 'deleteSubscriptionById',
  method: 'DELETE',
  path: '/subscriptions/{id}',
  summary: 'Remove a subscription by its id',
  description: 'Deliveries under way are completed.',
  input: Type.Object(common),
  output: Nothing,
  envelope: 'none',
  status: 204,
  problems: [404],
});

const list = { service, method: 'GET', output: Subscription, envelope: 'list' } as const;

export const findSubscriptions = defineEndpoint({
  ...list,
  operationId: 'findSubscriptions',
  path: '/subscriptions',
  summary: 'Find subscriptions by emitter, listener and channel',
  description: 'Without filters: all of yours, or with org_id those of the organization.',
  input: Type.Object({
    emitter_id: Type.Optional(Type.String()),
    listener_id: Type.Optional(Type.String()),
    event_name: eventName,
    ...common,
  }),
  problems: [403],
});

export const listMySubscriptions = defineEndpoint({
  ...list,
  operationId: 'listMySubscriptions',
  path: '/users/me/subscriptions',
  summary: 'List your subscriptions',
  description: 'Those of your organizations are listed under the organization, or with org_id.',
  input: Type.Object(common),
});

export const listOrgSubscriptions = defineEndpoint({
  ...list,
  operationId: 'listOrgSubscriptions',
  path: '/orgs/{org_id}/subscriptions',
  summary: 'List the subscriptions of an organization',
  description: 'For members of the organization.',
  input: Type.Object(common),
  problems: [404],
});

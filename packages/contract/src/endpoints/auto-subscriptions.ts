import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import { AutoSubscription, Nothing } from '../resources.ts';
import { common } from './parameters.ts';

const service = 'subscriptions';
const pair = { event_name: Type.Enum(['$errors', '$logs']), listener_id: Type.String({ minLength: 1 }) };

export const createAutoSubscription = defineEndpoint({
  service,
  operationId: 'createAutoSubscription',
  method: 'POST',
  path: '/auto_subscriptions',
  summary: 'Subscribe a listener to $errors or $logs of every source created later',
  description:
    'Each source or workflow that its owner creates later gets an ordinary subscription of its own. Those that exist are not changed.',
  input: Type.Object({ ...pair, ...common }),
  query: ['event_name', 'listener_id'],
  output: AutoSubscription,
  envelope: 'single',
  problems: [403, 404, 409],
});

export const listAutoSubscriptions = defineEndpoint({
  service,
  operationId: 'listAutoSubscriptions',
  method: 'GET',
  path: '/auto_subscriptions',
  summary: 'List auto-subscriptions',
  description: 'With org_id: those of the organization.',
  input: Type.Object(common),
  output: AutoSubscription,
  envelope: 'list',
  problems: [403],
});

export const deleteAutoSubscription = defineEndpoint({
  service,
  operationId: 'deleteAutoSubscription',
  method: 'DELETE',
  path: '/auto_subscriptions',
  summary: 'Remove an auto-subscription by channel and listener; subscriptions made by it stay',
  description: 'Sources created later are not subscribed any more.',
  input: Type.Object({ ...pair, ...common }),
  output: Nothing,
  envelope: 'none',
  status: 204,
  problems: [403, 404],
});

export const deleteAutoSubscriptionById = defineEndpoint({
  service,
  operationId: 'deleteAutoSubscriptionById',
  method: 'DELETE',
  path: '/auto_subscriptions/{id}',
  summary: 'Remove an auto-subscription by its id; subscriptions made by it stay',
  description: 'Sources created later are not subscribed any more.',
  input: Type.Object(common),
  output: Nothing,
  envelope: 'none',
  status: 204,
  problems: [404],
});

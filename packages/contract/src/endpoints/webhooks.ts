import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import { Delivery, Nothing, Recovered, Webhook, WebhookWithSecret } from '../resources.ts';
import { common, paging } from './parameters.ts';

const service = 'webhooks';
/** Delivery reads the rows of all webhooks of an event. */
const texts = {
  name: Type.Optional(Type.Union([Type.String({ maxLength: 1000 }), Type.Null()])),
  description: Type.Optional(Type.Union([Type.String({ maxLength: 4096 }), Type.Null()])),
  payload_format: Type.Optional(
    Type.Union([Type.Literal('raw'), Type.Literal('envelope')], {
      description:
        'Of the body. raw, the default: the emitted value alone; envelope: {type, timestamp, id, emitter_id, data} around it',
    }),
  ),
};

export const createWebhook = defineEndpoint({
  service,
  operationId: 'createWebhook',
  method: 'POST',
  path: '/webhooks',
  summary: 'Create a webhook; its secret is shown only here',
  description:
    'The URL must be reachable over http or https; addresses of private networks are refused when a delivery connects, unless the operator allows them. Deliveries are signed with the secret (Standard Webhooks).',
  input: Type.Object({
    url: Type.String({ description: 'http or https' }),
    ...texts,
    ...common,
  }),
  query: ['url', 'name', 'description', 'payload_format'],
  output: WebhookWithSecret,
  envelope: 'single',
  problems: [403],
});

export const getWebhook = defineEndpoint({
  service,
  operationId: 'getWebhook',
  method: 'GET',
  path: '/webhooks/{id}',
  summary: 'Get a webhook',
  description: 'The secret is not shown.',
  input: Type.Object(common),
  output: Webhook,
  envelope: 'single',
  problems: [404],
});

export const updateWebhook = defineEndpoint({
  service,
  operationId: 'updateWebhook',
  method: 'PUT',
  path: '/webhooks/{id}',
  summary: 'Change a webhook; omitted fields keep their values',
  description: 'With active: true, a webhook is enabled again that was disabled after failures or by a 410.',
  example: { active: true },
  input: Type.Object({
    url: Type.Optional(Type.String()),
    ...texts,
    active: Type.Optional(Type.Boolean()),
    ...common,
  }),
  output: Webhook,
  envelope: 'single',
  problems: [404],
});

export const deleteWebhook = defineEndpoint({
  service,
  operationId: 'deleteWebhook',
  method: 'DELETE',
  path: '/webhooks/{id}',
  summary: 'Delete a webhook with its subscriptions and deliveries',
  description: 'Waiting deliveries are dropped.',
  input: Type.Object(common),
  output: Nothing,
  envelope: 'none',
  status: 204,
  problems: [404],
});

const list = { service, method: 'GET', output: Webhook, envelope: 'page' } as const;

export const listMyWebhooks = defineEndpoint({
  ...list,
  operationId: 'listMyWebhooks',
  path: '/users/me/webhooks',
  summary: 'List your webhooks, newest first',
  description: 'Those of your organizations are listed under the organization, or with org_id.',
  input: Type.Object({ ...paging, ...common }),
});

export const listOrgWebhooks = defineEndpoint({
  ...list,
  operationId: 'listOrgWebhooks',
  path: '/orgs/{org_id}/webhooks',
  summary: 'List the webhooks of an organization, newest first',
  description: 'For members of the organization.',
  input: Type.Object({ ...paging, ...common }),
  problems: [404],
});

export const rotateWebhookSecret = defineEndpoint({
  service,
  operationId: 'rotateWebhookSecret',
  method: 'POST',
  path: '/webhooks/{id}/rotate_secret',
  summary: 'Give a webhook a new secret; the old one signs too for 24 hours',
  description:
    'The new secret is shown only here. For 24 hours deliveries carry signatures of both; a further rotation ends those with the older secret.',
  input: Type.Object(common),
  output: WebhookWithSecret,
  envelope: 'single',
  problems: [404],
});

export const testWebhook = defineEndpoint({
  service,
  operationId: 'testWebhook',
  method: 'POST',
  path: '/webhooks/{id}/test',
  summary: 'Send a signed test delivery',
  description: 'Sends {"test":true} once, with all headers and without an event id.',
  input: Type.Object(common),
  output: Delivery,
  envelope: 'single',
  status: 202,
  problems: [404, 409],
});

const time = Type.Optional(
  Type.Union([Type.String(), Type.Integer()], { description: 'ISO 8601, or epoch seconds' }),
);
const expand = Type.Optional(Type.String({ description: 'attempt_log: with the log of attempts' }));

export const getDelivery = defineEndpoint({
  service,
  operationId: 'getDelivery',
  method: 'GET',
  path: '/deliveries/{id}',
  summary: 'Get a delivery with the log of its attempts',
  description: 'The log has the newest 20 attempts, each with the beginning of the response.',
  input: Type.Object(common),
  output: Delivery,
  envelope: 'single',
  problems: [404],
});

export const listWebhookDeliveries = defineEndpoint({
  service,
  operationId: 'listWebhookDeliveries',
  method: 'GET',
  path: '/webhooks/{id}/deliveries',
  summary: 'List the deliveries of a webhook, newest first',
  description:
    'One delivery for each event of each subscribed emitter, with its state and number of attempts. Filters look at the newest 1,000 deliveries in the range of since and until; total_count is at most 10,000.',
  input: Type.Object({
    ...paging,
    status: Type.Optional(
      Type.Union([Type.Literal('pending'), Type.Literal('delivered'), Type.Literal('failed')]),
    ),
    event_id: Type.Optional(Type.String()),
    emitter_id: Type.Optional(Type.String()),
    since: time,
    until: time,
    expand,
    ...common,
  }),
  output: Delivery,
  envelope: 'page',
  problems: [404],
});

export const recoverWebhook = defineEndpoint({
  service,
  operationId: 'recoverWebhook',
  method: 'POST',
  path: '/webhooks/{id}/recover',
  summary: 'Resend all failed deliveries since a time',
  description: 'Deliveries that failed for good since then start again with a full schedule of retries.',
  input: Type.Object({
    since: Type.Union([Type.String(), Type.Integer()], { description: 'ISO 8601, or epoch seconds' }),
    ...common,
  }),
  query: ['since'],
  output: Recovered,
  envelope: 'single',
  status: 202,
  problems: [404, 409],
});

export const resendDelivery = defineEndpoint({
  service,
  operationId: 'resendDelivery',
  method: 'POST',
  path: '/deliveries/{id}/resend',
  summary: 'Resend a delivery with the same webhook-id',
  description:
    'The event is sent again at once. The attempts count on. A delivery that was delivered needs its event, which may have been removed since: 410.',
  input: Type.Object(common),
  output: Delivery,
  envelope: 'single',
  status: 202,
  problems: [404, 409, 410],
});

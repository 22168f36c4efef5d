import type { CollectionDefinition, Row } from '../collection-definition.ts';
import { accounts } from './accounts.ts';
import { bundles, components, publishedKeys, registry } from './components.ts';
import { delayed } from './delayed.ts';
import { events, logs } from './events.ts';
import { idempotencyKeys } from './idempotency.ts';
import { installation } from './installation.ts';
import { outbox } from './outbox.ts';
import { revisions } from './revisions.ts';
import { runningRuns } from './running-runs.ts';
import { deployments, endpoints, sources, timers } from './sources.ts';
import { states } from './states.ts';
import { autoSubscriptions, subscriptions } from './subscriptions.ts';
import { apiKeys, members, orgs, usage, users } from './users.ts';
import { deliveries, webhooks } from './webhooks.ts';
import { workflowDeployments, workflows } from './workflows.ts';

/** Every collection of the platform. */
export const collections = [
  users,
  apiKeys,
  orgs,
  members,
  usage,
  accounts,
  bundles,
  components,
  publishedKeys,
  registry,
  sources,
  deployments,
  endpoints,
  timers,
  workflows,
  workflowDeployments,
  webhooks,
  subscriptions,
  autoSubscriptions,
  states,
  events,
  logs,
  runningRuns,
  outbox,
  delayed,
  deliveries,
  idempotencyKeys,
  revisions,
  installation,
] as unknown as readonly CollectionDefinition<Row>[];

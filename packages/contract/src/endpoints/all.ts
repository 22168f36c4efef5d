import type { Endpoint } from '../endpoint.ts';
import * as accounts from './accounts.ts';
import * as autoSubscriptions from './auto-subscriptions.ts';
import * as components from './components.ts';
import * as documents from './documents.ts';
import * as events from './events.ts';
import * as operator from './operator.ts';
import * as registry from './registry.ts';
import * as runs from './runs.ts';
import * as sources from './sources.ts';
import * as subscriptions from './subscriptions.ts';
import * as users from './users.ts';
import * as webhooks from './webhooks.ts';
import * as workflows from './workflows.ts';

/** Every endpoint of the platform by its operation id. */
export const endpoints = {
  ...components,
  ...sources,
  ...events,
  ...subscriptions,
  ...autoSubscriptions,
  ...webhooks,
  ...accounts,
  ...users,
  ...workflows,
  ...operator,
  ...registry,
  ...runs,
  ...documents,
} satisfies Record<string, Endpoint>;

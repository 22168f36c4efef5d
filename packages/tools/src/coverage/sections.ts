import { COMPONENTS, DEFINITION } from './components.ts';
import { EVENTS } from './events.ts';
import { AUTHENTICATION, GENERAL } from './general.ts';
import { SUBSCRIPTIONS, WEBHOOKS } from './listeners.ts';
import { OPERATION, OWNERS } from './owners.ts';
import { PROPS } from './props.ts';
import type { Section } from './row.ts';
import { RUNS, SOURCES } from './sources.ts';
import { WORKFLOWS } from './workflows.ts';

/** Rules that are no endpoint, parameter, field or limit, in the order of the document. */
export const SECTIONS: readonly Section[] = [
  GENERAL,
  AUTHENTICATION,
  COMPONENTS,
  DEFINITION,
  PROPS,
  SOURCES,
  RUNS,
  EVENTS,
  SUBSCRIPTIONS,
  WEBHOOKS,
  WORKFLOWS,
  OWNERS,
  OPERATION,
];

import type { EndpointTests } from './row.ts';
import * as in_ from './suites.ts';

const COMPONENT = in_.apiComponents(
  'a component has its fields, and is found by id, by key, in the lists and in the registry',
);
const CONFIGURING = in_.apiComponents('options, props and a test run of a component have their fields');
const SOURCE = in_.apiComponents(
  'a source has its fields, and is created, read, listed, updated and deleted',
);
const DB = in_.apiComponents('the database of a source is read, replaced and emptied');
const ACCOUNT = in_.apiComponents(
  'an account has its fields, without its credentials unless they are asked for',
);
const EVENT = in_.apiEvents(
  'an event has its fields, cut over 1 KB unless expand=event, in lists, by id and on the stream',
);
const EMITS = in_.apiEvents('the newest events of a source are listed in the short form of older clients');
const RANGES = in_.apiEvents('deleting events answers 202 and null; ranges have both ends, one end or none');
const RUN = in_.apiEvents('a run and the records of its error and its logs have their fields');
const SUBSCRIPTION = in_.apiEvents(
  'a subscription has its fields, and is made, listed and removed by triple and by id',
);
const AUTO = in_.apiEvents(
  'an auto-subscription has its fields, and subscribes the listener to sources created later',
);
const WEBHOOK = in_.apiEvents('a webhook and a delivery have their fields');
const USER = in_.apiOwners(
  'a user has the fields of its plan: daily use and quotas, or those of the billing period',
);
const KEY = in_.apiOwners('an API key has its fields; its text is shown when it is made');
const ORG = in_.apiOwners(
  'an organization lists what belongs to it, to its members; org_id says where something is created',
);
const WORKFLOW = in_.apiOwners(
  'a workflow has its fields; its events, errors, logs, runs and stream are read as those of a source',
);
const DEAD_LETTERS = in_.operator('dead letters are listed, retried and dropped');

/** Every endpoint by operation id, with the tests of its path, status and answer. */
export const ENDPOINT_TESTS: EndpointTests = {
  createComponent: COMPONENT,
  getComponent: COMPONENT,
  getRegistryComponent: COMPONENT,
  listMyComponents: COMPONENT,
  listOrgComponents: ORG,
  deleteComponent: COMPONENT,
  configureComponent: CONFIGURING,
  listComponentProps: CONFIGURING,
  testComponent: CONFIGURING,
  createSource: SOURCE,
  getSource: SOURCE,
  listMySources: SOURCE,
  listOrgSources: ORG,
  updateSource: SOURCE,
  deleteSource: SOURCE,
  runSource: SOURCE,
  getSourceDb: DB,
  putSourceDb: DB,
  deleteSourceDb: DB,
  listSourceEvents: EVENT,
  getSourceEvent: EVENT,
  streamSource: EVENT,
  listSourceEmits: EMITS,
  deleteSourceEvents: RANGES,
  replayEvents: WEBHOOK,
  listSourceErrors: RUN,
  listSourceLogs: RUN,
  listSourceRuns: RUN,
  getRun: RUN,
  cancelRun: [
    ...RUN,
    ...in_.runs(
      'a run in progress is listed, found and cancelled by the runner that owns its source; an ended one is a 409',
    ),
  ],
  listWorkflowEvents: WORKFLOW,
  listWorkflowErrors: WORKFLOW,
  listWorkflowLogs: WORKFLOW,
  listWorkflowRuns: WORKFLOW,
  streamWorkflow: WORKFLOW,
  createSubscription: SUBSCRIPTION,
  findSubscriptions: SUBSCRIPTION,
  listMySubscriptions: SUBSCRIPTION,
  listOrgSubscriptions: ORG,
  deleteSubscription: SUBSCRIPTION,
  deleteSubscriptionById: SUBSCRIPTION,
  createAutoSubscription: AUTO,
  listAutoSubscriptions: AUTO,
  deleteAutoSubscription: AUTO,
  deleteAutoSubscriptionById: AUTO,
  createWebhook: WEBHOOK,
  getWebhook: WEBHOOK,
  listMyWebhooks: WEBHOOK,
  listOrgWebhooks: ORG,
  updateWebhook: WEBHOOK,
  deleteWebhook: WEBHOOK,
  rotateWebhookSecret: WEBHOOK,
  testWebhook: WEBHOOK,
  listWebhookDeliveries: WEBHOOK,
  getDelivery: WEBHOOK,
  resendDelivery: WEBHOOK,
  recoverWebhook: WEBHOOK,
  createAccount: ACCOUNT,
  getAccount: ACCOUNT,
  listMyAccounts: ACCOUNT,
  listOrgAccounts: ORG,
  updateAccount: ACCOUNT,
  deleteAccount: ACCOUNT,
  getMe: USER,
  listMyApiKeys: KEY,
  createMyApiKey: KEY,
  listOrgMembers: in_.apiOwners(
    'members of an organization see each other, page by page, and strangers do not',
  ),
  operatorListApiKeys: KEY,
  deleteMyApiKey: KEY,
  getOpenApi: in_.publicApi('documents › are there without a key, and list every public endpoint'),
  operatorGetOpenApi: in_.apiProperties('generated requests to the %s API › %s answers as documented'),
  operatorCreateUser: USER,
  operatorListUsers: USER,
  operatorGetUser: USER,
  operatorUpdateUser: USER,
  operatorDeleteUser: USER,
  operatorCreateApiKey: KEY,
  operatorDeleteApiKey: KEY,
  operatorCreateOrg: USER,
  operatorListOrgs: ORG,
  operatorGetOrg: ORG,
  operatorUpdateOrg: ORG,
  operatorDeleteOrg: ORG,
  operatorPutMember: ORG,
  operatorDeleteMember: ORG,
  operatorListDeadLetters: DEAD_LETTERS,
  operatorRedriveDeadLetter: DEAD_LETTERS,
  operatorDropDeadLetter: DEAD_LETTERS,
  operatorPublish: COMPONENT,
  operatorListRegistry: COMPONENT,
  operatorUnpublish: COMPONENT,
  operatorCreateWorkflow: WORKFLOW,
  operatorListWorkflows: WORKFLOW,
  operatorGetWorkflow: WORKFLOW,
  operatorUpdateWorkflow: WORKFLOW,
  operatorDeleteWorkflow: WORKFLOW,
};

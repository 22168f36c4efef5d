import { testsOf } from './row.ts';

/** Test files that several sections cite. */

const TESTING = 'packages/testing/src';
const COMPONENT = 'packages/component/src';

export const apiComponents = testsOf(`${TESTING}/api-components.test.ts`);
export const apiEvents = testsOf(`${TESTING}/api-events.test.ts`);
export const apiOwners = testsOf(`${TESTING}/api-owners.test.ts`);
export const apiLimits = testsOf(`${TESTING}/api-limits.test.ts`);
export const apiRules = testsOf(`${TESTING}/api-rules.test.ts`);
export const apiProperties = testsOf(`${TESTING}/api-properties.test.ts`);
export const componentDocs = testsOf(`${TESTING}/component-docs.test.ts`);
export const crash = testsOf(`${TESTING}/crash.test.ts`);
export const registryComponent = testsOf(`${TESTING}/registry-component.test.ts`);
export const e2e = testsOf(`${TESTING}/e2e.test.ts`);

export const action = testsOf(`${COMPONENT}/program/action.test.ts`);
export const configure = testsOf(`${COMPONENT}/program/configure.test.ts`);
export const database = testsOf(`${COMPONENT}/program/database.test.ts`);
export const define = testsOf(`${COMPONENT}/program/define.test.ts`);
export const emitter = testsOf(`${COMPONENT}/program/emitter.test.ts`);
export const program = testsOf(`${COMPONENT}/program/program.test.ts`);
export const propTypes = testsOf(`${COMPONENT}/program/prop-types.test.ts`);
export const responder = testsOf(`${COMPONENT}/program/responder.test.ts`);
export const expressions = testsOf(`${COMPONENT}/expressions.test.ts`);
export const httpEvent = testsOf(`${COMPONENT}/http-event.test.ts`);
export const values = testsOf(`${COMPONENT}/values.test.ts`);

export const validate = testsOf('packages/contract/src/validate.test.ts');
export const document = testsOf('packages/contract/src/openapi/document.test.ts');
export const dedupe = testsOf('packages/core/src/dedupe.test.ts');
export const rootKey = testsOf('packages/runtime/src/root-key.test.ts');
export const seal = testsOf('packages/core/src/seal.test.ts');
export const texts = testsOf('packages/core/src/texts.test.ts');
export const times = testsOf('packages/core/src/times.test.ts');
export const bind = testsOf('packages/http/src/bind.test.ts');
export const egress = testsOf('packages/http/src/egress.test.ts');
export const sse = testsOf('packages/http/src/sse.test.ts');
export const input = testsOf('packages/http/src/input.test.ts');
export const runtimeConfig = testsOf('packages/runtime/src/config.test.ts');
export const credentials = testsOf('packages/runtime/src/credentials.test.ts');
export const listening = testsOf('packages/runtime/src/listen.test.ts');
export const quotas = testsOf('packages/runtime/src/quotas.test.ts');
export const running = testsOf('packages/runtime/src/run.test.ts');
export const deleteRows = testsOf('packages/store/src/collections/delete-source.test.ts');
export const importing = testsOf('packages/tools/src/import.test.ts');
export const retention = testsOf('packages/store/src/retention.test.ts');
export const unusedCode = testsOf('packages/store/src/unused-code.test.ts');
export const sandbox = testsOf('packages/sandbox/src/sandbox.test.ts');
export const compile = testsOf('packages/sandbox/src/packages/compile.test.ts');
export const crashReport = testsOf('packages/sandbox/src/crash-report.test.ts');
export const addresses = testsOf('packages/sandbox/src/egress/addresses.test.ts');
export const frames = testsOf('packages/sandbox/src/frame-schema.test.ts');
export const installed = testsOf('packages/sandbox/src/packages/packages.test.ts');

export const components = testsOf('services/components/src/components.test.ts');
export const configureRoutes = testsOf('services/components/src/configure.test.ts');
export const fetchCode = testsOf('services/components/src/fetch-code.test.ts');
export const ownComponents = testsOf('services/components/src/own-components.test.ts');
export const registry = testsOf('services/components/src/registry.test.ts');

export const attempts = testsOf('services/delivery/src/attempts.test.ts');
export const fanOut = testsOf('services/delivery/src/fan-out.test.ts');
export const outcome = testsOf('services/delivery/src/outcome.test.ts');
export const deliveryReplay = testsOf('services/delivery/src/emitted.test.ts');
export const permits = testsOf('services/delivery/src/permits.test.ts');
export const request = testsOf('services/delivery/src/request.test.ts');
export const s3Sends = testsOf('services/delivery/src/sends/s3.test.ts');
export const sends = testsOf('services/delivery/src/sends/sends.test.ts');
export const recovery = testsOf('services/delivery/src/recovery.test.ts');

export const deleteRange = testsOf('services/events/src/delete-range.test.ts');
export const follow = testsOf('services/events/src/follow.test.ts');
export const listEvents = testsOf('services/events/src/list-events.test.ts');
export const record = testsOf('services/events/src/record.test.ts');
export const eventsReplay = testsOf('services/events/src/replay.test.ts');
export const runs = testsOf('services/events/src/runs.test.ts');
export const apiKeys = testsOf('services/gateway/src/api-keys.test.ts');
export const streams = testsOf('services/events/src/stream.test.ts');

export const apiMemory = testsOf('services/gateway/src/api-memory.test.ts');
export const authenticate = testsOf('services/gateway/src/authenticate.test.ts');
export const cors = testsOf('services/gateway/src/cors.test.ts');
export const customResponse = testsOf('services/gateway/src/custom-response.test.ts');
export const idempotency = testsOf('services/gateway/src/idempotency.test.ts');
export const ingest = testsOf('services/gateway/src/ingest.test.ts');
export const multipart = testsOf('services/gateway/src/multipart.test.ts');
export const multipartLimits = testsOf('services/gateway/src/multipart-limits.test.ts');
export const operator = testsOf('services/gateway/src/operator/operator.test.ts');
export const lostSubscriptions = testsOf('services/gateway/src/operator/lost-subscriptions.test.ts');
export const publicApi = testsOf('services/gateway/src/public-api.test.ts');
export const routeTable = testsOf('services/gateway/src/route-table.test.ts');

export const commit = testsOf('services/runner/src/commit.test.ts');
export const dbSets = testsOf('services/runner/src/db-sets.test.ts');
export const delayed = testsOf('services/runner/src/delayed.test.ts');
export const hooks = testsOf('services/runner/src/hooks.test.ts');
export const records = testsOf('services/runner/src/records.test.ts');
export const responses = testsOf('services/runner/src/responses.test.ts');
export const runnerAccounts = testsOf('services/runner/src/accounts.test.ts');
export const runnerRuns = testsOf('services/runner/src/runs.test.ts');
export const activeRuns = testsOf('services/runner/src/active-runs.test.ts');
export const replaceDb = testsOf('services/runner/src/replace-db.test.ts');
export const runnerSecrets = testsOf('services/runner/src/secrets.test.ts');
export const testRuns = testsOf('services/runner/src/test-run.test.ts');
export const ticks = testsOf('services/runner/src/ticks.test.ts');
export const timeLimits = testsOf('services/runner/src/time-limits.test.ts');
export const workflowRuns = testsOf('services/runner/src/workflows.test.ts');

export const accounts = testsOf('services/sources/src/accounts.test.ts');
export const present = testsOf('services/sources/src/present.test.ts');
export const scheduler = testsOf('services/sources/src/scheduler.test.ts');
export const sourceDb = testsOf('services/sources/src/source-db.test.ts');
export const sources = testsOf('services/sources/src/sources.test.ts');
export const transitions = testsOf('services/sources/src/recover-transitions.test.ts');
export const updateSource = testsOf('services/sources/src/update-source.test.ts');
export const workflows = testsOf('services/sources/src/workflows/workflows.test.ts');
export const subscriptions = testsOf('services/subscriptions/src/subscriptions.test.ts');
export const autoSubscriptions = testsOf('services/subscriptions/src/auto-subscriptions.test.ts');
export const deliveries = testsOf('services/webhooks/src/find-deliveries.test.ts');
export const reachedEvents = testsOf('services/webhooks/src/reached-events.test.ts');
export const webhookUrl = testsOf('services/webhooks/src/url.test.ts');
export const webhooks = testsOf('services/webhooks/src/webhooks.test.ts');
export const webhookTime = testsOf('services/webhooks/src/time.test.ts');

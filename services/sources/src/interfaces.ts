import type { PropDescriptor } from '@wellspring/contract/definition';
import { hasEndpoint, isAppHook } from '@wellspring/contract/definition-rules';
import { newSecret } from '@wellspring/core/ids';
import { nextAfter, parseSchedule } from '@wellspring/core/schedule';
import { changedTopic, TIMERS_CHANGED } from '@wellspring/pubsub/port';
import type { Deps } from '@wellspring/runtime/deps';
import {
  deployments,
  endpoints,
  type SourceRow,
  type TimerRow,
  timers,
} from '@wellspring/store/collections/sources';

/** The HTTP and timer interfaces of a source: rows that the gateway and the scheduler read. */
export interface Interfaces {
  /**
   * Updates the rows to the current deployment of the source. An endpoint keeps its key, and a timer with the same
   * schedule its next tick.
   * @param removeStale also removes the endpoints of removed props (default); false while the update may have to be
   * undone
   */
  sync(source: SourceRow, options?: { removeStale: boolean }): Promise<void>;
  /** Adds the missing endpoints of a deployment before any of its code runs. */
  addEndpoints(source: SourceRow, deploymentId: string): Promise<void>;
  /** Keys by prop name. */
  keys(sourceId: string): Promise<Record<string, string>>;
}

/** Apps whose components in the registry read `event.body` of their hook; those of other apps get the body itself. */
const HOOK_WITH_REQUEST = /^shopify/;

const isBodyOnly = (prop: PropDescriptor, props: readonly PropDescriptor[]): boolean =>
  isAppHook(prop) && !HOOK_WITH_REQUEST.test(props.find(({ name }) => name === prop.appProp)?.app ?? '');

export function createInterfaces({
  store,
  clock,
  pubsub,
}: Pick<Deps, 'store' | 'clock' | 'pubsub'>): Interfaces {
  const endpointRows = store.collection(endpoints);
  const timerRows = store.collection(timers);
  const deploymentRows = store.collection(deployments);

  async function syncEndpoints(source: SourceRow, props: readonly PropDescriptor[], removeStale: boolean) {
    const wanted = new Map(props.filter(hasEndpoint).map((prop) => [prop.name, prop]));
    const existing = await endpointRows.list({ where: { source_id: source.id }, order: 'asc' });
    for (const row of existing) {
      const prop = wanted.get(row.prop);
      wanted.delete(row.prop);
      if (prop) {
        const custom_response = prop.customResponse === true;
        const body_only = isBodyOnly(prop, props) || undefined;
        await endpointRows.patch(row.id, {
          active: source.active,
          custom_response,
          body_only,
          concurrency: source.concurrency,
          reply_by: source.reply_by,
        });
      } else if (removeStale) {
        await endpointRows.remove(row.id);
      }
    }
    for (const prop of wanted.values()) await insertEndpoint(source, prop, props);
  }

  const insertEndpoint = (source: SourceRow, prop: PropDescriptor, props: readonly PropDescriptor[]) =>
    endpointRows.insert({
      id: `e${newSecret()}`,
      source_id: source.id,
      owner_id: source.owner_id,
      prop: prop.name,
      active: source.active,
      custom_response: prop.customResponse === true,
      ...(isBodyOnly(prop, props) ? { body_only: true as const } : {}),
      concurrency: source.concurrency,
      reply_by: source.reply_by,
    });

  async function syncTimers(
    source: SourceRow,
    props: readonly PropDescriptor[],
    values: Record<string, unknown>,
  ) {
    const wanted = new Map(
      props
        .filter(({ type }) => type === '$.interface.timer')
        .map(({ name }) => [name, values[name]] as const),
    );
    for (const row of await timerRows.list({ where: { source_id: source.id } })) {
      if (!wanted.has(row.prop)) await timerRows.remove(row.id);
    }
    const now = clock.now();
    for (const [prop, value] of wanted) {
      const row = timerRow(source, prop, value, now);
      const old = await timerRows.getVersioned(row.id);
      if (old && sameSchedule(old.row, row) && (old.row.due_at === null) === (row.due_at === null)) continue;
      if (old) await timerRows.patch(row.id, row);
      else await timerRows.insert(row);
    }
    pubsub.publish(TIMERS_CHANGED);
  }

  return {
    async sync(source, { removeStale } = { removeStale: true }) {
      const deployment = await deploymentRows.get(source.deployment_id);
      if (!deployment) return;
      await syncEndpoints(source, deployment.definition.props, removeStale);
      await syncTimers(source, deployment.definition.props, deployment.configured_props);
      pubsub.publish(changedTopic(source.id));
    },
    async addEndpoints(source, deploymentId) {
      const deployment = await deploymentRows.get(deploymentId);
      if (!deployment) return;
      const existing = await endpointRows.list({ where: { source_id: source.id } });
      const { props } = deployment.definition;
      const missing = props
        .filter(hasEndpoint)
        .filter(({ name }) => !existing.some(({ prop }) => prop === name));
      for (const prop of missing) await insertEndpoint(source, prop, props);
    },
    async keys(sourceId) {
      const rows = await endpointRows.list({ where: { source_id: sourceId }, order: 'asc' });
      return Object.fromEntries(rows.map(({ prop, id }) => [prop, id]));
    },
  };
}

/** The first tick is one interval from now. */
function timerRow(source: SourceRow, prop: string, value: unknown, now: number): TimerRow {
  // The values were validated against the minimum interval of the time when they were configured.
  const schedule = parseSchedule(value, prop, 1);
  return {
    id: `${source.id}/${prop}`,
    source_id: source.id,
    prop,
    interval_seconds: schedule.kind === 'interval' ? schedule.seconds : null,
    cron: schedule.kind === 'cron' ? schedule.cron : null,
    timezone: schedule.kind === 'cron' ? schedule.timezone : null,
    due_at: source.active ? nextAfter(schedule, now) : null,
    lease_until: null,
  };
}

const sameSchedule = (a: TimerRow, b: TimerRow) =>
  a.interval_seconds === b.interval_seconds && a.cron === b.cron && a.timezone === b.timezone;

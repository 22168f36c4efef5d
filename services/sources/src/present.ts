import { presentValues } from '@wellspring/component/values';
import { endpointUrl } from '@wellspring/contract/endpoint-url';
import type { Deps } from '@wellspring/runtime/deps';
import { events, logs } from '@wellspring/store/collections/events';
import { deployments, type SourceRow, timers } from '@wellspring/store/collections/sources';
import type { Store } from '@wellspring/store/port';
import type { Interfaces } from './interfaces.ts';

const seconds = (ms: number | null | undefined) => (ms == null ? null : Math.floor(ms / 1000));

/** When the source ran last and runs next, in epoch seconds. Large texts of the rows are not read. */
async function timesOf(store: Store, sourceId: string) {
  const newest = { orderBy: 'sort_key', limit: 1, texts: false } as const;
  const stream = (name: string) =>
    store.collection(events).list({ where: { partition: `${sourceId}/${name}` }, ...newest });
  const [due, [log], [event], [error]] = await Promise.all([
    store.collection(timers).list({ where: { source_id: sourceId } }),
    store.collection(logs).list({ where: { emitter_id: sourceId }, ...newest }),
    stream('events'),
    stream('$errors'),
  ]);
  const next = due.flatMap(({ due_at }) => due_at ?? []);
  return {
    next_run_at: next.length === 0 ? null : seconds(Math.min(...next)),
    last_run_at: seconds(log?.indexed_at_ms),
    last_event_at: seconds(event?.indexed_at_ms),
    last_error_at: seconds(error?.indexed_at_ms),
  };
}

/** The returned function converts a row to the resource of the API. */
export function createPresentSource(
  { store, config }: Pick<Deps, 'store' | 'config'>,
  interfaces: Interfaces,
) {
  const deploymentRows = store.collection(deployments);
  return async (source: SourceRow) => {
    const [deployment, keys, times] = await Promise.all([
      deploymentRows.get(source.deployment_id),
      interfaces.keys(source.id),
      timesOf(store, source.id),
    ]);
    const urls = Object.fromEntries(
      Object.entries(keys).map(([prop, key]) => [prop, endpointUrl(config, key)]),
    );
    return {
      id: source.id,
      user_id: source.user_id,
      owner_id: source.owner_id,
      component_id: source.component_id,
      configured_props: deployment
        ? presentValues(deployment.definition.props, deployment.configured_props, urls)
        : {},
      active: source.active,
      concurrency: source.concurrency,
      created_at: source.created_at,
      updated_at: source.updated_at,
      name: source.name,
      name_slug: source.name_slug,
      ...times,
    };
  };
}
export type PresentSource = ReturnType<typeof createPresentSource>;

import { defaultEvent } from '@wellspring/component/default-event';
import { runSource } from '@wellspring/contract/endpoints/sources';
import type { RunJob } from '@wellspring/contract/messages';
import { newRunId } from '@wellspring/core/ids';
import { spreadOrderingKey } from '@wellspring/core/ordering-key';
import { conflict } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { deployments } from '@wellspring/store/collections/sources';
import type { SourcesContext } from './context.ts';
import { findSource } from './find-source.ts';

/** Runs a source once by hand, with the given event or one in the format of its interface. */
export function runSourceRoute({ deps, quotas }: SourcesContext): Route {
  let runs = 0;
  return route(runSource, async ({ params, input, principal, requestId }) => {
    const source = await findSource(deps, principal, params.id);
    if (!source.active) throw conflict('source_inactive', 'The source is inactive; enable it to run it.');
    await quotas.check(source, 'MANUAL');
    const deployment = await deps.store.collection(deployments).get(source.deployment_id);
    const { definition, configured_props = {} } = deployment ?? {};
    const event =
      input.event === undefined
        ? defaultEvent(definition?.props ?? [], configured_props, deps.clock.now())
        : input.event;
    const job: RunJob = {
      v: 1,
      type: 'run',
      run_id: newRunId(),
      source_id: source.id,
      trigger: { kind: 'manual', payload: JSON.stringify(event) },
      hop: 0,
      trace_id: requestId,
      accepted_at: deps.clock.now(),
    };
    await deps.queue.publish('runs', {
      key: spreadOrderingKey(source, runs++),
      payload: JSON.stringify(job),
    });
    return { run_id: job.run_id };
  });
}

import { updateSource } from '@wellspring/contract/endpoints/sources';
import { notFound } from '@wellspring/core/problem';
import { route } from '@wellspring/http/bind';
import { openValues } from '@wellspring/runtime/secret-values';
import { components } from '@wellspring/store/collections/components';
import { deployments } from '@wellspring/store/collections/sources';
import { applyUpdate, type NewValues, sourceBusy } from './apply-update.ts';
import type { SourcesContext } from './context.ts';
import {
  checkConcurrency,
  dropUnusedDeployments,
  namesComponent,
  newDeployment,
  readersFor,
  resolveComponent,
} from './deployment.ts';
import { findSource } from './find-source.ts';
import { checkName } from './name.ts';

/**
 * Updates a source. All validation precedes the first hook; from then on the row contains the former state, so that a
 * hook that throws, or a crash, leaves the source unchanged.
 */
export const updateSourceRoute = (context: SourcesContext) => {
  const { deps, presentSource, oneAtATime, configurator } = context;
  return route(updateSource, ({ params, input, principal }) =>
    oneAtATime(params.id, async () => {
      const source = await findSource(deps, principal, params.id);
      if (source.status === 'updating') throw sourceBusy();
      const name = input.name == null ? source.name : checkName(input.name);
      const newCode = namesComponent(input);
      // Code becomes a component of the source's owner, among whose components keys are looked up.
      const component = newCode
        ? await resolveComponent(
            deps,
            readersFor(principal, source.owner_id),
            source.owner_id,
            input,
            'source',
          )
        : await deps.store.collection(components).get(source.component_id);
      if (!component) throw notFound('component', source.component_id);
      const current = await deps.store.collection(deployments).get(source.deployment_id);
      const deployment =
        newCode || input.configured_props !== undefined
          ? await newDeployment(deps, configurator, {
              sourceId: source.id,
              component,
              principal,
              ownerId: source.owner_id,
              given: input.configured_props ?? {},
              previous: current ? openValues(deps, current) : {},
            })
          : undefined;
      const { definition } = deployment ?? current ?? component;
      const concurrency = checkConcurrency(input.concurrency ?? source.concurrency, definition);
      const values: NewValues = { ...source, name, active: input.active ?? true, concurrency };
      const ignoreHookErrors = input.ignore_hook_errors ?? true;
      if (!deployment) return presentSource(await applyUpdate(context, source, values, ignoreHookErrors));
      try {
        const next = { ...values, component_id: component.id, deployment_id: deployment.id };
        return await presentSource(await applyUpdate(context, source, next, ignoreHookErrors, deployment));
      } finally {
        await dropUnusedDeployments(deps, source.id);
      }
    }),
  );
};

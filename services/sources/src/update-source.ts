import { unknownValues } from '@wellspring/component/values';
import { updateSource } from '@wellspring/contract/endpoints/sources';
import type { Principal } from '@wellspring/contract/principal';
import { notFound } from '@wellspring/core/problem';
import { route } from '@wellspring/http/bind';
import { openValues } from '@wellspring/runtime/secret-values';
import { type ComponentRow, components } from '@wellspring/store/collections/components';
import { deployments, type SourceRow } from '@wellspring/store/collections/sources';
import { applyUpdate, type NewValues, sourceBusy } from './apply-update.ts';
import type { SourcesContext } from './context.ts';
import {
  checkConcurrency,
  dropUnusedDeployments,
  type Identifiers,
  namesComponent,
  newDeployment,
  readersFor,
  resolveComponent,
} from './deployment.ts';
import { changeSource } from './find-source.ts';
import { checkName } from './name.ts';

/**
 * Updates a source. All validation precedes the first hook; from then on the row contains the former state, so that a
 * hook that throws, or a crash, leaves the source unchanged.
 */
export const updateSourceRoute = (context: SourcesContext) => {
  const { deps, presentSource, configurator } = context;
  return route(updateSource, ({ params, input, principal, ignore }) =>
    changeSource(context, principal, params.id, async (source) => {
      if (source.status === 'updating') throw sourceBusy();
      const name = input.name == null ? source.name : checkName(input.name);
      const current = await deps.store.collection(deployments).get(source.deployment_id);
      // Neither its state nor its name needs the component, which may be deleted.
      const deployment =
        namesComponent(input) || input.configured_props !== undefined
          ? await newDeployment(deps, configurator, {
              sourceId: source.id,
              component: await componentFor(deps, principal, source, input),
              principal,
              ownerId: source.owner_id,
              given: input.configured_props ?? {},
              previous: current ? openValues(deps, current) : {},
            })
          : undefined;
      if (deployment) ignore(unknownValues(deployment.definition.props, input.configured_props ?? {}));
      const definition = (deployment ?? current)?.definition;
      if (!definition) throw notFound('source', source.id);
      const concurrency = checkConcurrency(input.concurrency ?? source.concurrency, definition);
      const values: NewValues = { ...source, name, active: input.active ?? true, concurrency };
      const ignoreHookErrors = input.ignore_hook_errors ?? true;
      if (!deployment) return presentSource(await applyUpdate(context, source, values, ignoreHookErrors));
      try {
        const next = { ...values, component_id: deployment.component_id, deployment_id: deployment.id };
        return await presentSource(await applyUpdate(context, source, next, ignoreHookErrors, deployment));
      } finally {
        await dropUnusedDeployments(deps, source.id);
      }
    }),
  );
};

/** The component that an update names, or else the present one. @throws Problem 400, 404 */
async function componentFor(
  deps: SourcesContext['deps'],
  principal: Principal,
  source: SourceRow,
  input: Identifiers,
): Promise<ComponentRow> {
  if (namesComponent(input)) {
    // Code becomes a component of the source's owner, among whose components keys are looked up.
    const readers = readersFor(principal, source.owner_id);
    return resolveComponent(deps, readers, source.owner_id, input, 'source');
  }
  const component = await deps.store.collection(components).get(source.component_id);
  if (!component) throw notFound('component', source.component_id);
  return component;
}

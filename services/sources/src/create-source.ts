import { unknownValues } from '@wellspring/component/values';
import { createSource } from '@wellspring/contract/endpoints/sources';
import { newId } from '@wellspring/core/ids';
import { missingComponent } from '@wellspring/core/problem';
import { route } from '@wellspring/http/bind';
import { ownerFor } from '@wellspring/http/principal';
import type { SourcesContext } from './context.ts';
import { deploySource } from './deploy-source.ts';
import { namesComponent, newDeployment, readersFor, resolveComponent } from './deployment.ts';
import { checkName } from './name.ts';

export const createSourceRoute = (context: SourcesContext) =>
  route(createSource, async ({ input, principal, ignore }) => {
    const { owner_id, user_id } = ownerFor(principal, input.org_id);
    if (!namesComponent(input)) throw missingComponent();
    const name = input.name == null ? undefined : checkName(input.name);
    const readers = readersFor(principal, owner_id);
    const component = await resolveComponent(context.deps, readers, owner_id, input, 'source');
    const { concurrency = 1, configured_props: given = {} } = input;
    const configuration = { sourceId: newId('dc'), component, principal, ownerId: owner_id, given };
    const deployment = await newDeployment(context.deps, context.configurator, configuration);
    ignore(unknownValues(deployment.definition.props, given));
    const wanted = { owner_id, user_id, name, deployment, concurrency };
    return context.presentSource(await deploySource(context, wanted));
  });

import { createComponent } from '@wellspring/contract/endpoints/components';
import { forbidden, missingParameter } from '@wellspring/core/problem';
import { route } from '@wellspring/http/bind';
import { ownerFor } from '@wellspring/http/principal';
import { presentComponent } from './present.ts';
import { saveGiven } from './resolve.ts';
import type { ComponentsContext } from './service.ts';

/** Saves a component and makes it the one its key means. Code posted before is found, and becomes the newest. */
export const createComponentRoute = (context: ComponentsContext) =>
  route(createComponent, async ({ input, principal }) => {
    if (principal.kind !== 'user') throw forbidden('Only a user can save a component.');
    const ownerId = ownerFor(principal, input.org_id).owner_id;
    if (input.component_code == null && input.component_url == null) throw missingParameter('component_code');
    const component = await saveGiven(context, ownerId, input);
    await context.library.publish(component);
    return presentComponent(component);
  });

import { createComponent } from '@wellspring/contract/endpoints/components';
import { missingParameter } from '@wellspring/core/problem';
import { route } from '@wellspring/http/bind';
import { ownerFor } from '@wellspring/http/principal';
import type { ComponentsContext } from './context.ts';
import { presentComponent } from './present.ts';
import { assertPublishable } from './reserved-keys.ts';
import { saveUnpublished } from './resolve.ts';

/** Saves a component and publishes it under its key. Known code is found and becomes the newest version of its key. */
export const createComponentRoute = (context: ComponentsContext) =>
  route(createComponent, async ({ input, principal, hold }) => {
    const { owner_id } = ownerFor(principal, input.org_id);
    if (input.component_code == null && input.component_url == null) {
      throw missingParameter('component_code', 'One of component_code and component_url is required.');
    }
    const component = await saveUnpublished(context, owner_id, input, hold, assertPublishable);
    await context.library.publish(component);
    return presentComponent(component);
  });

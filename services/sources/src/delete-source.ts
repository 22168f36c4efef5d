import { deleteSource } from '@wellspring/contract/endpoints/sources';
import { route } from '@wellspring/http/bind';
import type { SourcesContext } from './context.ts';
import { findSource } from './find-source.ts';
import { runDeactivate } from './hooks.ts';

export const deleteSourceRoute = ({ deps, removeEmitter, oneAtATime }: SourcesContext) =>
  route(deleteSource, async ({ params, input, principal }) => {
    // How long others wait would tell that a source exists.
    await findSource(deps, principal, params.id);
    await oneAtATime(params.id, async () => {
      const source = await findSource(deps, principal, params.id);
      if (source.active)
        await runDeactivate(deps, source.id, source.deployment_id, input.ignore_hook_errors ?? true);
      await removeEmitter(source.id);
    });
  });

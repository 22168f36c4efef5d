import { deleteSource } from '@wellspring/contract/endpoints/sources';
import { route } from '@wellspring/http/bind';
import type { SourcesContext } from './context.ts';
import { changeSource } from './find-source.ts';
import { runDeactivate } from './hooks.ts';

export const deleteSourceRoute = (context: SourcesContext) =>
  route(deleteSource, ({ params, input, principal }) =>
    changeSource(context, principal, params.id, async ({ id, active, deployment_id }) => {
      if (active) await runDeactivate(context.deps, id, deployment_id, input.ignore_hook_errors ?? true);
      await context.removeEmitter(id);
    }),
  );

import { CALLS, HOOK_DEADLINE_MS, type HookCall } from '@wellspring/contract/calls';
import type { HookName } from '@wellspring/contract/definition';
import { hookFailed } from '@wellspring/core/problem';
import type { Deps } from '@wellspring/runtime/deps';

/**
 * Longest time of an update between two writes to the row of its source: one hook, and the reads and writes around it.
 * After that time, an update is abandoned.
 */
export const MAX_STEP_MS = HOOK_DEADLINE_MS + 60_000;
/** Longest time of a change of a workflow, which is also longer than any of a source: it runs up to three hooks. */
export const MAX_TRANSITION_MS = 3 * HOOK_DEADLINE_MS;

/** Runs a hook of a deployment. @throws Problem 400 with the component's message */
export async function runHook(
  { call }: Pick<Deps, 'call'>,
  sourceId: string,
  deploymentId: string,
  hook: HookName,
): Promise<void> {
  const message: HookCall['message'] = { source_id: sourceId, deployment_id: deploymentId, hook };
  const answer = (await call.request(CALLS.hook, message, {
    key: sourceId,
    deadlineMs: HOOK_DEADLINE_MS,
  })) as HookCall['answer'];
  if (!answer.ok) throw hookFailed(`The ${hook} hook failed: ${answer.message}`);
}

/**
 * Runs the hook `deactivate`. The runner has recorded its error in `$logs` and `$errors`, which is enough if
 * `ignoreErrors`.
 * @throws Problem 400 unless `ignoreErrors`
 */
export async function runDeactivate(
  deps: Pick<Deps, 'call' | 'log'>,
  sourceId: string,
  deploymentId: string,
  ignoreErrors: boolean,
): Promise<void> {
  try {
    await runHook(deps, sourceId, deploymentId, 'deactivate');
  } catch (error) {
    if (!ignoreErrors) throw error;
    deps.log.info({ source_id: sourceId, error: (error as Error).message }, 'hook.deactivate_failed');
  }
}

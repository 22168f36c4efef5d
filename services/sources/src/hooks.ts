import { CALLS, HOOK_DEADLINE_MS, type HookCall } from '@wellspring/contract/calls';
import type { HookName } from '@wellspring/contract/definition';
import { backoff } from '@wellspring/core/backoff';
import { hookFailed, Problem } from '@wellspring/core/problem';
import type { Deps } from '@wellspring/runtime/deps';

/**
 * Longest time of an update between two writes to the row of its source: one hook, and the reads and writes around it.
 * After that time, an update is abandoned.
 */
export const MAX_STEP_MS = HOOK_DEADLINE_MS + 60_000;
/** Longest time of a change of a workflow, which is also longer than any of a source: it runs up to three hooks. */
export const MAX_TRANSITION_MS = 3 * HOOK_DEADLINE_MS;

/** Calls of a deactivate hook that ended without an answer, after which the operation goes on without it. */
const MAX_DEACTIVATIONS = 5;
const RETRY = { baseMs: 1_000, maxMs: 8_000 };

/** Runs a hook of a deployment. @throws Problem 400 with the component's message, CallFailed if it may have run */
export async function runHook(
  { call }: Pick<Deps, 'call'>,
  sourceId: string,
  deploymentId: string,
  hook: HookName,
  deadlineMs = HOOK_DEADLINE_MS,
): Promise<void> {
  const message: HookCall['message'] = { source_id: sourceId, deployment_id: deploymentId, hook };
  const answer = (await call.request(CALLS.hook, message, {
    key: sourceId,
    deadlineMs,
  })) as HookCall['answer'];
  if (!answer.ok) throw hookFailed(`The ${hook} hook failed: ${answer.message}`);
}

/**
 * Runs the hook `deactivate`. The runner has recorded its error in `$logs` and `$errors`, which is enough if
 * `ignoreErrors`. A call without an answer, as when the runner died, is then repeated within the time of one hook: the
 * hook may not have run, and would leave an external webhook behind.
 * @throws Problem 400, CallFailed unless `ignoreErrors`
 */
export async function runDeactivate(
  deps: Pick<Deps, 'call' | 'log' | 'clock'>,
  sourceId: string,
  deploymentId: string,
  ignoreErrors: boolean,
): Promise<void> {
  const end = performance.now() + HOOK_DEADLINE_MS;
  for (let attempt = 1; ; attempt++) {
    try {
      return await runHook(deps, sourceId, deploymentId, 'deactivate', end - performance.now());
    } catch (error) {
      if (!ignoreErrors) throw error;
      const pauseMs = backoff(attempt, RETRY);
      const isLost = !(error instanceof Problem) && attempt < MAX_DEACTIVATIONS;
      if (!isLost || performance.now() + pauseMs >= end) {
        deps.log.info({ source_id: sourceId, error: (error as Error).message }, 'hook.deactivate_failed');
        return;
      }
      await deps.clock.sleep(pauseMs);
    }
  }
}

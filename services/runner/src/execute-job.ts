import { ownHostOf } from '@wellspring/contract/endpoint-url';
import { type HttpReply, MAX_HOPS, type RunJob } from '@wellspring/contract/messages';
import type { Deps } from '@wellspring/runtime/deps';
import type { Deployed } from './catalog.ts';
import { type ExecuteDeps, type Execution, executeRun, type JobToExecute } from './execute-run.ts';
import { executeWorkflow } from './execute-workflow.ts';
import { runTrigger } from './job-trigger.ts';
import { taskOf } from './run-task.ts';

/** Executes the code of a source, or the steps of a workflow. */
export function executeJob(
  deps: ExecuteDeps & Pick<Deps, 'config'>,
  { shard, ...toExecute }: JobToExecute<Deployed> & { shard: string },
  respond: (reply: HttpReply) => void,
): Promise<Execution> {
  const { job, deployed, live, run, owner, commitLogs, room } = toExecute;
  if (deployed.workflow) return executeWorkflow(deps, { ...toExecute, deployed }, respond);
  const { trigger } = job;
  const { definition, mask } = deployed.deployment;
  const given = runTrigger(job);
  const { text, base64 = '' } = given.kind === 'http' ? given.request : { text: given.json };
  room.give((text ?? base64).length);
  const task = taskOf(deployed, owner, live, `run${shard}`, {
    kind: 'run',
    trigger: given,
    emitTrigger: !definition.has_run,
  });
  const ownHost =
    trigger.kind === 'http' ? ownHostOf(deps.config, trigger.request.headers.host)?.host : undefined;
  return executeRun(deps, { task, live, run, mask, commitLogs, ownHost, room }, respond);
}

/** The workflow behind a source answers the HTTP call of this run: its emit passes the reply address on. */
export const passedReply = ({ reply_to, reply_by, hop }: RunJob, { outcome, result }: Execution) =>
  reply_to !== undefined && reply_by !== undefined && result.ok && outcome.emits.length > 0 && hop < MAX_HOPS
    ? { to: reply_to, by: reply_by }
    : undefined;

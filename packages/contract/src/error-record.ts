import { PLATFORM_VERSION } from './limits.ts';
import type { RecordJob } from './messages.ts';

export interface ErrorRecordOptions {
  /** Equal for a repetition. */
  run_id: string;
  /** Of a source or workflow. */
  emitter: { id: string; owner_id: string; deployment_id: string };
  source_type: 'HTTP' | 'TIMER' | 'EMIT' | 'MANUAL' | 'WEBHOOK' | 'SEND';
  /** The run that failed; default `run_id`. */
  context_id?: string;
  /** `c_` id of a workflow's step. */
  cell_id?: string;
  /** Name of the error. */
  code: string;
  msg: string;
  /** Epoch ms. */
  now: number;
}

/** The job that puts an error of the platform, without input and stack, on `$errors` of a source or workflow. */
export function errorRecordJob({
  run_id,
  emitter,
  source_type,
  context_id = run_id,
  cell_id,
  code,
  msg,
  now,
}: ErrorRecordOptions): RecordJob {
  const ts = new Date(now).toISOString();
  const isWorkflow = emitter.id.startsWith('p_');
  const record = {
    original_event: null,
    original_context: {
      id: context_id,
      ts,
      workflow_id: isWorkflow ? emitter.id : null,
      source_id: isWorkflow ? null : emitter.id,
      deployment_id: emitter.deployment_id,
      source_type,
      verified: false,
      owner_id: emitter.owner_id,
      platform_version: PLATFORM_VERSION,
    },
    error: { code, msg, stack: '', ts, cellId: cell_id ?? null },
  };
  return {
    v: 1,
    type: 'record',
    run_id,
    source_id: emitter.id,
    channel: '$errors',
    payload: JSON.stringify(record),
    hop: 0,
  };
}

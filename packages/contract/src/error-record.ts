import { PLATFORM_VERSION } from './limits.ts';
import type { RecordJob } from './messages.ts';

export interface ErrorRecordOptions {
  /** Equal for a repetition. */
  run_id: string;
  source: { id: string; owner_id: string; deployment_id: string };
  source_type: 'HTTP' | 'TIMER' | 'MANUAL' | 'WEBHOOK';
  /** Name of the error. */
  code: string;
  msg: string;
  /** Epoch ms. */
  now: number;
}

/** The job that puts an error of the platform, without input and stack, on `$errors` of a source. */
export function errorRecordJob({
  run_id,
  source,
  source_type,
  code,
  msg,
  now,
}: ErrorRecordOptions): RecordJob {
  const ts = new Date(now).toISOString();
  const record = {
    original_event: null,
    original_context: {
      id: run_id,
      ts,
      workflow_id: null,
      source_id: source.id,
      deployment_id: source.deployment_id,
      source_type,
      verified: false,
      owner_id: source.owner_id,
      platform_version: PLATFORM_VERSION,
    },
    error: { code, msg, stack: '', ts, cellId: null },
  };
  return {
    v: 1,
    type: 'record',
    run_id,
    source_id: source.id,
    channel: '$errors',
    payload: JSON.stringify(record),
    hop: 0,
  };
}

import { beforeEach } from '@jest/globals';
import type { RecordJob, Send } from '@wellspring/contract/messages';
import type { Platform } from '../platform.fixture.ts';

export const [WORKFLOW, OTHER] = ['p_0000000001', 'p_0000000002'] as const;

let numbers = 0;

/** Requests of two workflows that exist. */
export function useSends(t: Platform) {
  beforeEach(async () => {
    for (const id of [WORKFLOW, OTHER]) await t.workflow(id);
  });
  return {
    send: (kind: Send['kind'], request: unknown): Send => ({
      id: `run_1/${numbers++}`,
      at: 1_700_000_000_000,
      kind,
      request: JSON.stringify(request),
      run_id: 'run_1',
      deployment_id: 'd_1',
      cell_id: 'c_1',
    }),
    emit: (...sends: Send[]) => t.emit(WORKFLOW, [], { sends, hop: 2 }),
    /** Waits for the record of a failure. */
    async failure(): Promise<{ job: RecordJob; msg: string }> {
      const [job] = (await t.runs(1)) as RecordJob[];
      return { job: job!, msg: JSON.parse(job!.payload).error.msg };
    },
  };
}

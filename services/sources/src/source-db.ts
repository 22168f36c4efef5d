import { deleteSourceDb, getSourceDb, putSourceDb } from '@wellspring/contract/endpoints/sources';
import { LIMITS } from '@wellspring/contract/limits';
import type { DbJob, HttpReply } from '@wellspring/contract/messages';
import { newRunId } from '@wellspring/core/ids';
import { invalidParameter, notFound, unavailable } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { states } from '@wellspring/store/collections/states';
import type { SourcesDeps } from './context.ts';
import { findSource } from './find-source.ts';

/** A run before it may take its whole time. */
const REPLY_MS = LIMITS.runMs + 10_000;

/** Reading and replacing `$service.db`. It is written by the runner, in the order of the runs. */
export function sourceDbRoutes(deps: SourcesDeps): Route[] {
  const { store, queue, call } = deps;

  /** @throws Problem 404 if the source is deleted meanwhile, 503 if the runs before take too long */
  async function replace(source_id: string, db: Record<string, string>): Promise<void> {
    const reply = call.openReplyAddress();
    try {
      const job: DbJob = { v: 1, type: 'db', run_id: newRunId(), source_id, db, reply_to: reply.address };
      await queue.publish('runs', { key: source_id, payload: JSON.stringify(job) });
      const answer = (await reply.receive(REPLY_MS)) as HttpReply | undefined;
      if (answer === undefined) throw unavailable('The change waits for runs of the source.');
      if (answer.kind === 'refused') throw notFound('source', source_id);
    } finally {
      reply.close();
    }
  }

  return [
    route(getSourceDb, async ({ principal, params }) => {
      const source = await findSource(deps, principal, params.id);
      const db = (await store.collection(states).get(source.id))?.db ?? {};
      return Object.fromEntries(Object.entries(db).map(([key, json]) => [key, JSON.parse(json) as unknown]));
    }),
    route(putSourceDb, async ({ principal, params, input }) => {
      const source = await findSource(deps, principal, params.id);
      const db = Object.fromEntries(
        Object.entries(input.data).map(([key, value]) => [key, JSON.stringify(value)]),
      );
      const bytes = Object.entries(db).reduce(
        (sum, [key, json]) => sum + Buffer.byteLength(key) + Buffer.byteLength(json),
        0,
      );
      if (bytes > LIMITS.db) {
        throw invalidParameter('data', `data must be at most ${LIMITS.db / 1024} KB as JSON.`);
      }
      await replace(source.id, db);
      return input.data;
    }),
    route(deleteSourceDb, async ({ principal, params }) => {
      const source = await findSource(deps, principal, params.id);
      await replace(source.id, {});
    }),
  ];
}

import {
  operatorDropDeadLetter,
  operatorListDeadLetters,
  operatorRedriveDeadLetter,
} from '@wellspring/contract/endpoints/operator';
import { notFound } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { MAX_LIMIT } from '@wellspring/http/paging';
import type { Deps } from '@wellspring/runtime/deps';

/** Routes to inspect, redrive and drop dead letters. */
export function deadLetterRoutes({ queue }: Pick<Deps, 'queue'>): Route[] {
  return [
    route(operatorListDeadLetters, ({ input }) =>
      queue.deadLetters.list({
        limit: Math.min(input.limit ?? MAX_LIMIT, MAX_LIMIT),
        ...(input.after === undefined ? {} : { after: input.after }),
      }),
    ),
    route(operatorRedriveDeadLetter, async ({ params }) => {
      if (!(await queue.deadLetters.redrive(params.id))) throw notFound('dead letter', params.id);
    }),
    route(operatorDropDeadLetter, async ({ params }) => {
      if (!(await queue.deadLetters.drop(params.id))) throw notFound('dead letter', params.id);
    }),
  ];
}

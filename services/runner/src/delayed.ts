import type { Emit, ThrownError } from '@wellspring/component/program/program-types';
import { LIMITS } from '@wellspring/contract/limits';
import { events } from '@wellspring/store/collections/events';
import type { Store } from '@wellspring/store/port';

/**
 * Drops delayed emits that are due too late, or exceed the number of events that may wait for one source, with an error
 * for each of the two reasons. Events of runs that end at the same time are not counted.
 */
export async function limitDelayed(
  store: Store,
  sourceId: string,
  emits: readonly Emit[],
  now: number,
): Promise<{ emits: readonly Emit[]; errors: ThrownError[] }> {
  if (!emits.some(({ delivery_ts }) => (delivery_ts ?? 0) > now)) return { emits, errors: [] };
  const waiting = await store.collection(events).count({ partition: `${sourceId}/$in` }, LIMITS.delayed);
  let room = LIMITS.delayed - waiting;
  let [late, many] = [0, 0];
  const kept = emits.filter(({ delivery_ts }) => {
    const delay = (delivery_ts ?? 0) - now;
    if (delay <= 0) return true;
    if (delay > LIMITS.delayMs) late += 1;
    else if (room <= 0) many += 1;
    else room -= 1;
    return delay <= LIMITS.delayMs && many === 0;
  });
  const refusal = (count: number, reason: string): ThrownError[] =>
    count === 0
      ? []
      : [{ name: 'RangeError', message: `${count} delayed emits were refused: ${reason}.`, stack: '' }];
  return {
    emits: kept,
    errors: [
      ...refusal(late, 'delivery_ts is more than a year ahead'),
      ...refusal(many, `${LIMITS.delayed} events of this source wait on $in`),
    ],
  };
}

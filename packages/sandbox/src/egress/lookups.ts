import type { Channel } from './channel.ts';
import { createRateLimit, type EgressLimits } from './limits.ts';
import { queryOf, RelayError, toWire } from './relay-error.ts';
import type { Answer, Question } from './wire.ts';

/** A question about a name. */
export type Lookup = Extract<Question, { lookup: string } | { resolve: string }>;

/**
 * Answers the look-ups of one sandbox, within its limits.
 * @param ask returns the answer in the format of the channel. @throws RelayError, or an error of the look-up
 */
export function createLookups(
  limits: EgressLimits,
  ask: (question: Lookup) => Promise<Omit<Answer, 'id'>>,
): (channel: Channel, question: Lookup) => Promise<void> {
  const mayAsk = createRateLimit(limits.lookupsPerSecond, limits.lookupBurst);
  let pending = 0;
  return async (channel, question) => {
    const { id } = question;
    const hostname = 'lookup' in question ? question.lookup : question.resolve;
    const fallback = { syscall: 'lookup' in question ? 'getaddrinfo' : queryOf(question.type) };
    const refuse = (limit: string) =>
      new RelayError({
        ...fallback,
        code: 'EAGAIN',
        hostname,
        message: `${fallback.syscall} EAGAIN ${hostname}: the limit of ${limit} is reached`,
      });
    pending += 1;
    try {
      if (pending > limits.pendingLookups) throw refuse(`${limits.pendingLookups} look-ups at the same time`);
      if (!mayAsk(performance.now())) throw refuse(`${limits.lookupsPerSecond} look-ups per second`);
      channel.send({ id, ...(await ask(question)) } as Answer);
    } catch (error) {
      channel.send({ id, failed: { ...toWire(error, fallback), hostname } });
    } finally {
      pending -= 1;
    }
  };
}

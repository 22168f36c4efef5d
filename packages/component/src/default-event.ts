import type { PropDescriptor } from '@wellspring/contract/definition';

/**
 * The event of a run by hand for which none is given: a tick of the timer, or an empty request.
 * @param now epoch ms
 */
export function defaultEvent(
  props: readonly PropDescriptor[],
  values: Record<string, unknown>,
  now: number,
): unknown {
  const timer = props.find(({ type }) => type === '$.interface.timer');
  if (timer) {
    const value = (values[timer.name] ?? {}) as Record<string, unknown>;
    const schedule =
      value.cron == null
        ? { interval_seconds: value.intervalSeconds }
        : { cron: value.cron, timezone: value.timezone ?? 'UTC' };
    return { timestamp: Math.floor(now / 1000), ...schedule };
  }
  if (props.some(({ type }) => type === '$.interface.http'))
    return { method: 'GET', path: '/', query: {}, headers: {}, bodyRaw: '' };
  return {};
}

import { isFields } from './fields.ts';

/**
 * The event of an app hook: the body of the vendor's request. Slack sends its events in an envelope, and interactions as
 * JSON in the form field `payload`.
 */
export function hookEvent(body: unknown): unknown {
  if (!isFields(body)) return body ?? null;
  if (body.type === 'event_callback' && isFields(body.event)) return body.event;
  const { payload, ...others } = body;
  if (typeof payload !== 'string' || Object.keys(others).length > 0) return body;
  try {
    return JSON.parse(payload);
  } catch {
    return body;
  }
}

/** The challenge of a request with which Slack and others verify the URL of a hook; undefined for other bodies. */
export function challengeOf(body: unknown): string | undefined {
  if (!isFields(body) || body.type !== 'url_verification') return undefined;
  return typeof body.challenge === 'string' ? body.challenge : undefined;
}

import { startTimeLimit } from '../time-limit.ts';

/** A request that cannot be made, with a sentence for the owner of the workflow. */
export class SendError extends Error {
  override readonly name = 'SendError';
}

/** One kind of request. Resolves when the receiver has accepted it. @throws SendError, Unavailable before it was made */
export type SendOne = (request: Record<string, unknown>, context: SendContext) => Promise<void>;

/** Of an attempt. */
export interface SendLimits {
  /** Aborts the request; its reason is the error. */
  ended: AbortSignal;
  /** Throws Unavailable when another process may make the request: called after each wait before it. */
  assertHeld: () => void;
}

export interface SendContext extends SendLimits {
  /** Equal for a repetition. */
  id: string;
  /** Of the workflow. */
  owner_id: string;
  /** Sources and workflows that led to it, with this workflow. */
  hop: number;
  /** Epoch ms, equal for a repetition. */
  at: number;
}

/** Does the work of a request within a time. @throws SendError which begins with `failed` and ends with the reason */
export async function sendWithin(
  { timeoutMs, ended, failed }: { timeoutMs: number; ended: AbortSignal; failed: string },
  work: (signal: AbortSignal) => Promise<unknown>,
): Promise<void> {
  const { signal, clear } = startTimeLimit(timeoutMs, ended);
  try {
    await work(signal);
  } catch (error) {
    const reason = signal.aborted ? String(signal.reason) : (error as Error).message;
    throw new SendError(`${failed}: ${reason.slice(0, 300)}.`);
  } finally {
    clear();
  }
}

/** A text field; undefined if it is absent. @throws SendError for an object */
export function textOf(request: Record<string, unknown>, call: string, field: string): string | undefined {
  const value = request[field];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'object') throw new SendError(`${field} of ${call} has to be a text.`);
  return String(value);
}

/** An object field; empty if it is absent. @throws SendError */
export function objectOf(
  request: Record<string, unknown>,
  call: string,
  field: string,
): Record<string, unknown> {
  const value = request[field] ?? {};
  if (typeof value !== 'object' || Array.isArray(value)) {
    throw new SendError(`${field} of ${call} has to be an object.`);
  }
  return value as Record<string, unknown>;
}

/** The bytes of a Buffer that travelled as JSON. */
export function bytesOf(value: unknown): Uint8Array | undefined {
  const { type, data } = (value ?? {}) as { type?: unknown; data?: unknown };
  return type === 'Buffer' && Array.isArray(data) ? Uint8Array.from(data as number[]) : undefined;
}

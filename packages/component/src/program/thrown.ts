import { LIMITS } from '@wellspring/contract/limits';
import { describeCause } from './cause.ts';
import type { ThrownError } from './program-types.ts';

/** Longer texts are not stored anywhere. */
const MAX_CHARS = LIMITS.logLine;

const unchanged = (text: string) => text;

const text = (value: unknown, fallback: string, clean = unchanged): string => {
  try {
    return clean(typeof value === 'string' ? value : value === undefined ? fallback : String(value)).slice(
      0,
      MAX_CHARS,
    );
  } catch {
    return fallback;
  }
};

/** Converts any value that user code may throw; see Program. */
export function toThrown(error: unknown, clean = unchanged): ThrownError {
  try {
    if (typeof error === 'object' && error !== null && 'message' in error) {
      const { name, message, stack } = error as { name?: unknown; message?: unknown; stack?: unknown };
      const cause = describeCause(error, clean);
      return {
        name: text(name, 'Error') || 'Error',
        message: text(message, ''),
        stack: text(stack, '', clean),
        ...(cause === undefined ? {} : { cause }),
      };
    }
    if (typeof error === 'object' && error !== null)
      return { name: 'Error', message: text(JSON.stringify(error), ''), stack: '' };
  } catch {
    return { name: 'Error', message: 'An object was thrown that cannot be read.', stack: '' };
  }
  return {
    name: 'Error',
    message: error === undefined ? 'undefined was thrown.' : text(error, ''),
    stack: '',
  };
}

import { inspect } from 'node:util';

/** Of nested causes, and of the objects in them. */
const MAX_DEPTH = 5;
/** Errors of an AggregateError that are printed. */
const MAX_ERRORS = 5;
/** Fields of an error, and elements of an array. */
const MAX_FIELDS = 10;
/** Of a text in the cause, too: a secret that was cut inside of the cause could not be found and masked. */
export const MAX_CAUSE_CHARS = 8 * 1024;

const PRIMITIVES = new Set(['string', 'number', 'boolean', 'bigint']);

/**
 * A copy of an error with its primitive fields (such as `code`), and with its causes, copied alike. Objects are left out:
 * libraries for HTTP attach requests, with credentials, to their errors.
 */
function copyError(error: Error, depth: number): Error {
  const { message, stack, cause, errors } = error as Error & { errors?: unknown };
  const copy = new Error(String(message));
  // Printed by `inspect`; begins with name and message, so that the field `name` is not copied.
  copy.stack = typeof stack === 'string' && stack !== '' ? stack : `${error.name}: ${message}`;
  let fields = 0;
  for (const [name, value] of Object.entries(error)) {
    if (name === 'name' || name === 'stack' || !PRIMITIVES.has(typeof value) || fields >= MAX_FIELDS)
      continue;
    fields += 1;
    const shown = typeof value === 'string' ? value.slice(0, MAX_CAUSE_CHARS) : value;
    Object.defineProperty(copy, name, { value: shown, enumerable: true, configurable: true });
  }
  if (depth >= MAX_DEPTH) return copy;
  if (Array.isArray(errors)) {
    const some = errors.slice(0, MAX_ERRORS).map((one) => copyIfError(one, depth + 1));
    Object.defineProperty(copy, 'errors', { value: some });
  }
  if (cause !== undefined) Object.defineProperty(copy, 'cause', { value: copyIfError(cause, depth + 1) });
  return copy;
}

const copyIfError = (value: unknown, depth: number): unknown =>
  value instanceof Error ? copyError(value, depth) : value;

/**
 * The `cause` of an error, or else the errors of an AggregateError, in the format of `util.inspect`, shortened.
 * @param error any thrown object
 * @param clean applied before the text is cut
 * @returns undefined without a cause, or if reading it throws
 */
export function describeCause(error: object, clean: (text: string) => string): string | undefined {
  try {
    const { cause, errors } = error as { cause?: unknown; errors?: unknown };
    const shown =
      cause !== undefined ? cause : Array.isArray(errors) ? errors.slice(0, MAX_ERRORS) : undefined;
    if (shown === undefined) return undefined;
    const value = Array.isArray(shown) ? shown.map((one) => copyIfError(one, 1)) : copyIfError(shown, 1);
    const text = inspect(value, {
      depth: MAX_DEPTH,
      customInspect: false,
      maxArrayLength: MAX_FIELDS,
      maxStringLength: MAX_CAUSE_CHARS,
    });
    return clean(text).slice(0, MAX_CAUSE_CHARS);
  } catch {
    return undefined;
  }
}

import { inspect } from 'node:util';

/** Nested causes. */
const MAX_DEPTH = 5;
/** Errors of an AggregateError that are printed. */
const MAX_ERRORS = 5;
const MAX_FIELDS = 10;
const MAX_FIELD_CHARS = 500;
export const MAX_CAUSE_CHARS = 8 * 1024;

const PRIMITIVES = new Set(['string', 'number', 'boolean', 'bigint']);

/**
 * A copy of an error with its simple fields (such as `code`). Its other fields are left out: clients of HTTP attach
 * requests, with credentials, to their errors.
 */
function simplified(error: Error, depth: number): Error {
  const { message, stack, cause, errors } = error as Error & { errors?: unknown };
  const copy = new Error(String(message));
  // `inspect` prints the stack, which begins with name and message.
  copy.stack = typeof stack === 'string' && stack !== '' ? stack : `${error.name}: ${message}`;
  let fields = 0;
  for (const [name, value] of Object.entries(error)) {
    if (name === 'name' || name === 'stack' || !PRIMITIVES.has(typeof value) || fields >= MAX_FIELDS)
      continue;
    fields += 1;
    const shown = typeof value === 'string' ? value.slice(0, MAX_FIELD_CHARS) : value;
    Object.defineProperty(copy, name, { value: shown, enumerable: true, configurable: true });
  }
  if (depth >= MAX_DEPTH) return copy;
  if (Array.isArray(errors)) {
    const some = errors.slice(0, MAX_ERRORS).map((one) => below(one, depth));
    Object.defineProperty(copy, 'errors', { value: some });
  }
  if (cause !== undefined) Object.defineProperty(copy, 'cause', { value: below(cause, depth) });
  return copy;
}

const below = (value: unknown, depth: number): unknown =>
  value instanceof Error ? simplified(value, depth + 1) : value;

/**
 * The cause of an error, as Node.js prints it: `cause` with its own causes, or the errors of an AggregateError.
 * @returns undefined without a cause, or if it cannot be read
 */
export function describeCause(error: object): string | undefined {
  try {
    const { cause, errors } = error as { cause?: unknown; errors?: unknown };
    const shown =
      cause !== undefined ? cause : Array.isArray(errors) ? errors.slice(0, MAX_ERRORS) : undefined;
    if (shown === undefined) return undefined;
    const value = Array.isArray(shown) ? shown.map((one) => below(one, 0)) : below(shown, 0);
    return inspect(value, {
      depth: MAX_DEPTH,
      customInspect: false,
      maxArrayLength: MAX_FIELDS,
      maxStringLength: MAX_FIELD_CHARS,
    }).slice(0, MAX_CAUSE_CHARS);
  } catch {
    return undefined;
  }
}

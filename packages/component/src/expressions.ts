/**
 * Expressions in prop values of a workflow's steps: `{{steps.<name>.<path>}}`. They are paths into data, read by the
 * platform, and never run as code.
 */

/** Segments after `steps`: the name of a step, then fields and indexes. */
export type Path = readonly [step: string, ...rest: string[]];

/** The data of a step by its name; undefined if it has none. */
export type Scope = (step: string) => unknown;

/** An expression cannot be evaluated; the message names it. */
export class ExpressionError extends Error {
  override readonly name = 'ExpressionError';
}

const SEGMENT = /\.([A-Za-z_$][\w$]*)|\[(\d{1,9})\]|\["([^"\\]*)"\]|\['([^'\\]*)'\]/y;

/** @returns undefined unless the text is a path that begins with `steps` */
export function parsePath(expression: string): Path | undefined {
  const text = expression.trim();
  if (!text.startsWith('steps')) return undefined;
  const path: string[] = [];
  SEGMENT.lastIndex = 'steps'.length;
  while (SEGMENT.lastIndex < text.length) {
    const found = SEGMENT.exec(text);
    if (!found) return undefined;
    path.push(found.slice(1).find((part) => part !== undefined)!);
  }
  return path.length > 0 ? (path as unknown as Path) : undefined;
}

type Part = { text: string } | { expression: string };

/** Texts and expressions in turn. Braces that are not closed are text. */
function partsOf(template: string): Part[] {
  const parts: Part[] = [];
  let at = 0;
  for (;;) {
    const start = template.indexOf('{{', at);
    const end = start < 0 ? -1 : template.indexOf('}}', start + 2);
    if (end < 0) break;
    if (start > at) parts.push({ text: template.slice(at, start) });
    parts.push({ expression: template.slice(start + 2, end) });
    at = end + 2;
  }
  if (at < template.length) parts.push({ text: template.slice(at) });
  return parts;
}

/** The expressions in the texts of a value, also of those within objects and arrays. */
export function expressionsIn(value: unknown): string[] {
  if (typeof value === 'string') {
    return partsOf(value).flatMap((part) => ('expression' in part ? [part.expression] : []));
  }
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(expressionsIn) : [];
}

/** Only own fields of plain data: never a prototype, a method or a character of a text. */
function lookUp(path: Path, scope: Scope): unknown {
  const [step, ...rest] = path;
  let value = scope(step);
  for (const field of rest) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, field)) return undefined;
    value = (value as Record<string, unknown>)[field];
  }
  return value;
}

const asText = (value: unknown): string =>
  value === undefined || value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value);

/**
 * Replaces the expressions in a value. One that is a whole text keeps the type of its data; within a text it is
 * interpolated: nothing for null and what does not exist, JSON for objects.
 * @param spend is told the characters that each expression adds, and throws when they are too many
 * @throws ExpressionError for an expression that is not a path
 */
export function fillIn(value: unknown, scope: Scope, spend: (chars: number) => void): unknown {
  const evaluate = (expression: string): unknown => {
    const path = parsePath(expression);
    if (path) return lookUp(path, scope);
    throw new ExpressionError(
      `The expression {{${expression.slice(0, 200)}}} is not a path: use steps.<name>.<path>, and a step for other code.`,
    );
  };
  const fill = (given: unknown): unknown => {
    if (typeof given === 'string') {
      const parts = partsOf(given);
      const [first] = parts;
      if (parts.length === 1 && first && 'expression' in first) {
        const whole = evaluate(first.expression);
        spend(JSON.stringify(whole)?.length ?? 0);
        return whole;
      }
      return parts
        .map((part) => {
          if ('text' in part) return part.text;
          const text = asText(evaluate(part.expression));
          spend(text.length);
          return text;
        })
        .join('');
    }
    if (Array.isArray(given)) return given.map(fill);
    if (typeof given !== 'object' || given === null) return given;
    return Object.fromEntries(Object.entries(given).map(([name, field]) => [name, fill(field)]));
  };
  return fill(value);
}

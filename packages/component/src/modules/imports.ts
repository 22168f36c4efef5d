import { inPieces } from '@wellspring/core/in-pieces';

const SPACE = /\s/;
const WORD = /[\p{ID_Continue}$]/u;
const [SPACE_UNIT, WORD_UNIT, OTHER_UNIT] = [1, 2, 3] as const;
/** Kinds of the UTF-16 units seen so far: the expressions are too slow for each of millions. */
const KINDS = new Uint8Array(0x10000);
/** Characters between two points at which the reader may pause. */
const PIECE = 64 * 1024;
/** After these words a slash starts a regular expression; after any other word it is a division. */
const BEFORE_EXPRESSION = new Set([
  'return',
  'typeof',
  'case',
  'in',
  'of',
  'do',
  'else',
  'void',
  'await',
  'yield',
]);

export const isRelative = (specifier: string): boolean => /^\.\.?(\/|$)/.test(specifier);

/** The relative ones of `importedSpecifiers`. Pauses in large code, so that other work goes on. */
export async function relativeImports(code: string): Promise<string[]> {
  const found = new Set<string>();
  const add = (specifier: string) => isRelative(specifier) && found.add(specifier);
  await inPieces(findImports(code, add), (chars) => chars);
  return [...found];
}

/**
 * The specifiers that a module of any dialect (ESM, CommonJS, TypeScript) imports, each once, in their order:
 * `import … from`, `export … from`, `import()` and `require()` with a literal. Comments, other strings and imports that
 * name only types do not count. Never throws, and takes time linear in the length of the code.
 */
export function importedSpecifiers(code: string): string[] {
  const found = new Set<string>();
  for (const _ of findImports(code, (specifier) => found.add(specifier)));
  return [...found];
}

/** @yields the characters of each piece that was read */
function* findImports(code: string, add: (specifier: string) => unknown): Generator<number> {
  // The previous tokens: enough to recognize `from "x"` and `require("x")`.
  let last = '';
  let beforeLast = '';
  /** Tokens of the import or export statement being read. */
  let statement: string[] = [];
  const push = (token: string) => {
    beforeLast = last;
    last = token;
    if (token === 'import' || token === 'export') statement = [];
    else if (statement.length < 3) statement.push(token);
  };
  let begun = 0;
  for (let at = 0; at < code.length; ) {
    if (at - begun >= PIECE) {
      yield at - begun;
      begun = at;
    }
    const char = code[at]!;
    const kind = kindOf(code.charCodeAt(at));
    const next = char === '/' ? code[at + 1] : undefined;
    if (kind === SPACE_UNIT) {
      at += 1;
    } else if (next === '/') {
      at = after(code, '\n', at);
    } else if (next === '*') {
      at = after(code, '*/', at + 2);
    } else if (char === '"' || char === "'" || char === '`') {
      const end = closing(code, at, char);
      const text = code.slice(at + 1, end - 1);
      const imported =
        (last === 'from' && !isTypeOnly(statement)) ||
        last === 'import' ||
        (last === '(' &&
          (beforeLast === 'import' || beforeLast === 'require') &&
          /^\s*[),]/.test(code.slice(end, end + 100)));
      if (imported && text !== '' && !text.includes('${')) add(text);
      push('""');
      at = end;
    } else if (char === '/' && beginsExpression(last)) {
      at = closing(code, at, '/');
      push('""');
    } else if (kind === WORD_UNIT) {
      let end = at + 1;
      // A word may have megabytes: NaN would make each of its characters three times as slow.
      while (end < code.length && kindOf(code.charCodeAt(end)) === WORD_UNIT) end += 1;
      push(code.slice(at, end));
      at = end;
    } else {
      push(char);
      at += 1;
    }
  }
}

/** @param unit NaN beyond the end of the code */
function kindOf(unit: number): number {
  const known = KINDS[unit];
  if (known !== 0) return known ?? OTHER_UNIT;
  const char = String.fromCharCode(unit);
  const kind = SPACE.test(char) ? SPACE_UNIT : WORD.test(char) ? WORD_UNIT : OTHER_UNIT;
  KINDS[unit] = kind;
  return kind;
}

function after(code: string, mark: string, from: number): number {
  const at = code.indexOf(mark, from);
  return at < 0 ? code.length : at + mark.length;
}

/** The end of the literal that starts at `at`: after its closing mark, or at the end of its line. */
function closing(code: string, at: number, mark: string): number {
  let inClass = false;
  for (let i = at + 1; i < code.length; i++) {
    const char = code[i];
    if (char === '\\') i += 1;
    else if (char === mark && !inClass) return i + 1;
    else if (char === '\n' && mark !== '`') return i;
    else if (mark === '/') inClass = char === '[' || (inClass && char !== ']');
  }
  return code.length;
}

const beginsExpression = (last: string) =>
  BEFORE_EXPRESSION.has(last) ||
  !(kindOf(last.charCodeAt(last.length - 1)) === WORD_UNIT || last === '""' || /[)\]}]/.test(last));

/** `import type { T } from`, `export type * from`; not `import type from`. */
const isTypeOnly = ([first, second, third]: string[]) =>
  first === 'type' && second !== ',' && (second !== 'from' || third === 'from');

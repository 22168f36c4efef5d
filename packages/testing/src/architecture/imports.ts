import { init, parse } from 'es-module-lexer';

/**
 * The specifiers that a TypeScript file imports or re-exports from, types included, in order and without repetition;
 * of dynamic imports those that are given as a literal. Text in comments and strings does not count.
 */
export async function importsOf(source: string): Promise<string[]> {
  await init();
  const [imports] = parse(source);
  return [...new Set(imports.flatMap(({ specifier }) => specifier ?? []))];
}

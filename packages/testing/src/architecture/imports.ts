import { init, parse } from 'es-module-lexer';

/**
 * Specifiers of the imports and re-exports of a TypeScript file, types and literal dynamic imports included, in order
 * and without repetition.
 */
export async function importsOf(source: string): Promise<string[]> {
  await init();
  const [imports] = parse(source);
  return [...new Set(imports.flatMap(({ specifier }) => specifier ?? []))];
}

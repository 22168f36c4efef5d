/** Extensions of modules, in the order in which a missing one is guessed. */
const EXTENSIONS = ['.mjs', '.js', '.cjs', '.mts', '.ts', '.cts', '.json'];
/** TypeScript names a file by the extension that it has when compiled. */
const TYPESCRIPT: Record<string, string[]> = {
  '.mjs': ['.mts', '.ts'],
  '.js': ['.ts'],
  '.cjs': ['.cts', '.ts'],
};

const extensionOf = (path: string): string => EXTENSIONS.find((extension) => path.endsWith(extension)) ?? '';

/** The path of a URL, without query and fragment. */
const pathOf = (url: string): string => /^[^?#]*/.exec(url)![0];

export const isTypeScript = (url: string): boolean => /\.[mc]?ts$/.test(pathOf(url));
export const isJson = (url: string): boolean => pathOf(url).endsWith('.json');

/**
 * The URLs that a relative specifier may name, the likeliest first: the file itself, then with an extension, that of
 * the importer before others, then the index of a directory. A file whose name has no known extension comes last, since
 * servers answer the name of a directory with a page.
 */
export function candidatesOf(specifier: string, importer: string): string[] {
  const exact = new URL(specifier, importer).href;
  const path = pathOf(exact);
  const rest = exact.slice(path.length);
  const preferred = extensionOf(pathOf(importer));
  const extensions = [...new Set([preferred, ...EXTENSIONS])].filter((extension) => extension !== '');
  const indexes = (directory: string) =>
    extensions.map((extension) => `${directory}/index${extension}${rest}`);
  if (path.endsWith('/')) return indexes(path.slice(0, -1));
  const guessed = extensions.map((extension) => path + extension + rest);
  const extension = extensionOf(path);
  if (extension === '') return [...guessed, ...indexes(path), exact];
  const typed = TYPESCRIPT[extension] ?? [];
  return [
    exact,
    ...typed.map((other) => path.slice(0, -extension.length) + other + rest),
    ...guessed,
    ...indexes(path),
  ];
}

/**
 * The module that a specifier names.
 * @param has whether there is a module of this URL
 */
export const resolveModule = (
  specifier: string,
  importer: string,
  has: (url: string) => boolean,
): string | undefined => candidatesOf(specifier, importer).find(has);

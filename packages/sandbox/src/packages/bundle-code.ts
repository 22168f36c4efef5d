import { isJson, isTypeScript, resolveModule } from '@wellspring/component/modules/resolve';
import type { ComponentCode } from '@wellspring/contract/definition';
import type { BuildOptions, BuildResult, Loader, Message, Plugin } from 'esbuild';
import { REQUIRE, REQUIRED } from './require-packages.ts';
import { aliasOf, parseSpecifier } from './specifier.ts';

/** Code in one file, and its packages by the alias under which it imports them. */
export interface Compiled {
  format: 'esm' | 'cjs';
  code: string;
  packages: Record<string, { name: string; version: string }>;
}

/** Name of the plugin in its messages. */
const RESOLVER = 'component';
/** File name of the code in messages and stacks. */
const ENTRY = 'component.js';
const TYPES_SHIM = `const identity = (definition) => definition;
export { identity as defineSource, identity as defineAction, identity as defineApp, identity as defineComponent };`;

/**
 * Resolves imports without the file system: relative imports to the given modules, packages to their alias. Refuses
 * others.
 */
function resolver(
  { modules = {}, url, imports = {}, dependencies = {} }: ComponentCode,
  packages: Compiled['packages'],
  loader: Loader,
): Plugin {
  return {
    name: RESOLVER,
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /.*/ }, ({ path, importer, kind }) => {
        if (kind === 'entry-point') return undefined;
        if (Object.hasOwn(imports, path)) return { path: imports[path]!, namespace: 'module' };
        const specifier = parseSpecifier(path);
        if (specifier.kind === 'builtin') return { path: specifier.name, external: true };
        if (specifier.kind === 'refused')
          return { errors: [{ text: `${path} cannot be imported: ${specifier.why}.` }] };
        if (specifier.kind === 'relative') {
          const from = URL.canParse(importer) ? importer : url;
          const has = (module: string) => Object.hasOwn(modules, module);
          const target = from === undefined ? undefined : resolveModule(path, from, has);
          if (target !== undefined) return { path: target, namespace: 'module' };
          return { errors: [{ text: `${path} cannot be imported: there is no such module.` }] };
        }
        const { name, subpath } = specifier;
        const range = specifier.range ?? (Object.hasOwn(dependencies, name) ? dependencies[name] : undefined);
        if (name === '@pipedream/types') return { path: name, namespace: 'shim' };
        const alias = aliasOf(name, range);
        packages[alias] = { name, version: range ?? 'latest' };
        const mark = kind === 'require-call' ? REQUIRED : '';
        return { path: mark + alias + subpath, external: true };
      });
      onLoad({ filter: /.*/, namespace: 'module' }, ({ path }) => ({
        contents: modules[path] ?? '',
        loader: isJson(path) ? 'json' : isTypeScript(path) ? 'ts' : loader,
      }));
      onLoad({ filter: /.*/, namespace: 'shim' }, () => ({ contents: TYPES_SHIM, loader: 'js' }));
    },
  };
}

/** `build` of esbuild, native or in WebAssembly. */
export type Build = (options: BuildOptions) => Promise<BuildResult>;

type Format = Compiled['format'];

/**
 * Characters of code that gets a source map, which is one and a half times as long. Larger code is not written by hand:
 * its errors name the lines of the bundle.
 */
const MAX_MAPPED = 1024 * 1024;

const lengthOf = ({ code, modules = {} }: ComponentCode) =>
  Object.values(modules).reduce((sum, module) => sum + module.length, code.length);

/** @param before code at the beginning of the bundle */
async function attempt(build: Build, code: ComponentCode, loader: Loader, format: Format, before = '') {
  const packages: Compiled['packages'] = Object.create(null);
  const { outputFiles, metafile } = await build({
    stdin: { contents: code.code, sourcefile: ENTRY, loader },
    plugins: [resolver(code, packages, loader)],
    bundle: true,
    write: false,
    metafile: true,
    format,
    platform: 'node',
    target: 'esnext',
    // Syntax that Node.js does not know.
    supported: { decorators: false },
    charset: 'utf8',
    legalComments: 'none',
    logLevel: 'silent',
    sourcemap: lengthOf(code) > MAX_MAPPED ? false : 'inline',
    sourcesContent: false,
    banner: { js: before },
    tsconfigRaw: {},
  });
  const { inputs } = metafile!;
  const requires = Object.values(inputs).some(({ imports }) =>
    imports.some(({ kind, external }) => kind === 'require-call' && external),
  );
  return { text: outputFiles![0]!.text, form: inputs[ENTRY]?.format, packages, requires };
}

/** Messages of the compiler, those with a position first. */
function messagesOf(error: unknown): Message[] {
  const { errors } = error as { errors?: Message[] };
  if (!Array.isArray(errors)) throw error;
  return errors.toSorted((a, b) => Number(b.location !== null) - Number(a.location !== null));
}

/** The message of the parser, with its position, and with the module if it is an imported one. */
function sentence(message: Message | undefined): string {
  if (!message) return 'The code cannot be compiled.';
  const { text, location } = message;
  if (!location) return text;
  const { file, line, column } = location;
  const module = file === ENTRY ? '' : `${file.replace(/^module:(folder:\/\/\/)?/, '')}, `;
  return `${text} (${module}line ${line}, column ${column + 1})`;
}

/** @returns a function that bundles code, or returns the reason for its refusal; it throws if the compiler fails */
export function createBundleCode(build: Build) {
  async function bundle(code: ComponentCode, loader: Loader): Promise<Compiled> {
    const first = await attempt(build, code, loader, 'esm');
    const format = first.form === 'cjs' ? 'cjs' : 'esm';
    // ES modules may import a module of CommonJS, which has `require`.
    const requires = first.requires;
    const { text, packages } =
      format === 'esm' && !requires
        ? first
        : await attempt(build, code, loader, format, requires ? REQUIRE[format] : '');
    return { format, code: text, packages: { ...packages } };
  }
  return async (code: ComponentCode): Promise<Compiled | { refused: string }> => {
    if (code.url !== undefined && isTypeScript(code.url))
      return bundle(code, 'ts').catch((error) => ({ refused: sentence(messagesOf(error)[0]) }));
    try {
      return await bundle(code, 'js');
    } catch (error) {
      const messages = messagesOf(error);
      const [js] = messages;
      // The code is JavaScript. As TypeScript, it would lose the imports that nothing uses, as if they named types.
      if (messages.every(({ pluginName }) => pluginName === RESOLVER)) return { refused: sentence(js) };
      // Code that is neither JavaScript nor TypeScript: the message with the later position is more useful.
      const asTypeScript = await bundle(code, 'ts').catch(messagesOf);
      if (!Array.isArray(asTypeScript)) return asTypeScript;
      const [ts] = asTypeScript;
      const further = (ts?.location?.line ?? 0) > (js?.location?.line ?? 0) ? ts : js;
      return { refused: sentence(further ?? js ?? ts) };
    }
  };
}

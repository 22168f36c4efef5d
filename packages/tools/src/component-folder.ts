import { readdir, readFile } from 'node:fs/promises';
import { join, resolve as resolvePath, sep } from 'node:path';
import { FOLDER, type FolderCode } from '@wellspring/component/modules/folder-code';
import { importedSpecifiers, isRelative } from '@wellspring/component/modules/imports';
import { isJson, resolveModule } from '@wellspring/component/modules/resolve';
import { isVersionRange } from '@wellspring/core/versions';

/** The components of a folder: `<app>/sources/<name>/<name>.mjs`, `<app>/actions/…`, or any file with key and version. */
export interface ComponentFolder {
  /** Paths of the components with `/`, sorted. */
  paths: string[];
  /**
   * A component with the modules that it imports, directly or indirectly.
   * @throws Error that names a module which is missing
   */
  read(path: string): Promise<FolderCode>;
}

interface Manifest {
  /** With `/` at the end; empty: the folder itself. */
  directory: string;
  name: string | undefined;
  main: string;
  dependencies: Record<string, string>;
}

const CODE = /\.[mc]?[jt]s$/;
const MODULE = /\.(?:[mc]?[jt]s|json)$/;
const SKIPPED_DIRECTORIES = new Set(['node_modules', 'dist', '.git', 'test', 'tests', '__tests__']);
const NO_COMPONENT = /\.(?:app|test|spec|d)\.[mc]?[jt]s$|\/common\//;
/** `sources/x/x.mjs` */
const NAMED_AS_DIRECTORY = /(?:^|\/)(?:sources|actions)\/([^/]+)\/\1\.[mc]?[jt]s$/;
const HAS_EXPORT = /\bexport\s+default\b|\bmodule\.exports\b/;
const HAS_KEY = /(?:^|[{,])\s*["']?key["']?\s*[:,]/m;
const HAS_VERSION = /(?:^|[{,])\s*["']?version["']?\s*[:,}]/m;

const pathOf = (url: string): string => decodeURIComponent(url.slice(FOLDER.length));
const urlOf = (path: string): string => new URL(path, FOLDER).href;

/** @throws Error if it is not a folder that can be read */
export async function openComponentFolder(folder: string): Promise<ComponentFolder> {
  const root = resolvePath(folder);
  const files = await list(root);
  const modules = new Map(files.filter((path) => MODULE.test(path)).map((path) => [urlOf(path), path]));
  const manifests = await readManifests(root, files);
  const texts = (path: string) => readFile(join(root, path), 'utf8');

  /** The manifest of the nearest directory above. */
  const manifestOf = (path: string) => manifests.find(({ directory }) => path.startsWith(directory));

  /** The module that a bare specifier names, if its package lies in the folder. */
  function localModule(specifier: string): string | undefined {
    const [, name = '', below] = /^((?:@[^/]+\/)?[^/@]+)(?:\/(.*))?$/.exec(specifier) ?? [];
    const manifest = name === '' ? undefined : manifests.find((one) => one.name === name);
    if (!manifest) return undefined;
    const target = below ?? manifest.main;
    const importer = urlOf(`${manifest.directory}package.json`);
    return resolveModule(`./${target}`, importer, (url) => modules.has(url));
  }

  async function isComponent(path: string): Promise<boolean> {
    if (!CODE.test(path) || NO_COMPONENT.test(path)) return false;
    if (NAMED_AS_DIRECTORY.test(path)) return true;
    const text = await texts(path);
    return HAS_EXPORT.test(text) && HAS_KEY.test(text) && HAS_VERSION.test(text);
  }

  const paths: string[] = [];
  for (const path of files) if (await isComponent(path)) paths.push(path);

  return {
    paths: paths.sort(),
    async read(path) {
      const component_code = await texts(path);
      const found: Record<string, string> = {};
      const imports: Record<string, string> = {};
      const dependencies: Record<string, string> = {};
      const waiting = [{ path, text: component_code }];
      for (let module = waiting.pop(); module; module = waiting.pop()) {
        const importer = urlOf(module.path);
        if (isJson(importer)) continue;
        for (const specifier of importedSpecifiers(module.text)) {
          const relative = isRelative(specifier);
          const url = relative
            ? resolveModule(specifier, importer, (one) => modules.has(one))
            : localModule(specifier);
          if (url === undefined) {
            if (!relative) addDependency(dependencies, specifier, manifestOf(module.path));
            // The compiler decides whether it is needed: TypeScript may import only types from it.
            continue;
          }
          const target = pathOf(url);
          if (!relative) imports[specifier] = target;
          if (Object.hasOwn(found, target)) continue;
          found[target] = await texts(target);
          waiting.push({ path: target, text: found[target] });
        }
      }
      return { component_code, component_path: path, modules: found, imports, dependencies };
    },
  };
}

/** The first module that imports a package decides on its range. */
function addDependency(
  dependencies: Record<string, string>,
  specifier: string,
  manifest: Manifest | undefined,
): void {
  const name = /^(?:@[^/]+\/)?[^/@]+/.exec(specifier)?.[0] ?? specifier;
  const range =
    manifest && Object.hasOwn(manifest.dependencies, name) ? manifest.dependencies[name] : undefined;
  if (range === undefined || !isVersionRange(range) || Object.hasOwn(dependencies, name)) return;
  dependencies[name] = range;
}

/** Paths of all files, without those of packages and builds. Links are not followed. */
async function list(root: string): Promise<string[]> {
  const files: string[] = [];
  const directories = [''];
  for (let below = directories.pop(); below !== undefined; below = directories.pop()) {
    for (const entry of await readdir(join(root, below), { withFileTypes: true })) {
      const path = below === '' ? entry.name : `${below}/${entry.name}`;
      if (entry.isDirectory() && !SKIPPED_DIRECTORIES.has(entry.name)) directories.push(path);
      else if (entry.isFile()) files.push(path.replaceAll(sep, '/'));
    }
  }
  return files;
}

/** Those of the deepest directories first. */
async function readManifests(root: string, files: readonly string[]): Promise<Manifest[]> {
  const manifests: Manifest[] = [];
  for (const path of files) {
    if (!/(?:^|\/)package\.json$/.test(path)) continue;
    const directory = path.slice(0, -'package.json'.length);
    try {
      const { name, main, dependencies } = JSON.parse(await readFile(join(root, path), 'utf8')) ?? {};
      manifests.push({
        directory,
        name: typeof name === 'string' ? name : undefined,
        // Of TypeScript the sources are imported, not the build.
        main: typeof main === 'string' ? main.replace(/^\.?\/?(?:dist\/)?/, '') : 'index',
        dependencies: { ...(dependencies as Record<string, string> | undefined) },
      });
    } catch {
      // A malformed manifest is ignored.
    }
  }
  return manifests.sort((a, b) => b.directory.length - a.directory.length);
}

import type { ComponentCode } from '@wellspring/contract/definition';
import { invalidParameter } from '@wellspring/core/problem';
import { isVersionRange } from '@wellspring/core/versions';

/** A component in a folder, as `operatorPublish` gets it: paths with `/`, relative to the folder. */
export interface FolderCode {
  component_code: string;
  component_path?: string | undefined;
  modules?: Record<string, string> | undefined;
  imports?: Record<string, string> | undefined;
  dependencies?: Record<string, string> | undefined;
}

/** Modules of a folder have URLs below it. Nothing is fetched from them. */
export const FOLDER = 'folder:///';
const DEFAULT_PATH = 'component.mjs';
const MAX_PATH_CHARS = 1024;
const MAX_MODULES = 1000;
const MAX_NAMES = 1000;

/** Printable, without `..` or empty segments; what has a meaning in a URL is not allowed. */
const PATH = /^(?!.*(?:^|\/)\.{1,2}(?:\/|$))[^\p{Cc}/?#%\\]+(?:\/[^\p{Cc}/?#%\\]+)*$/u;

/** @throws Problem 400 that names the parameter */
function urlOf(path: string, param: string): string {
  if (path.length > MAX_PATH_CHARS || !PATH.test(path))
    throw invalidParameter(param, `${param} has to be a relative path, such as app/sources/new/new.mjs.`);
  return new URL(path, FOLDER).href;
}

const entriesOf = (map: Record<string, string> | undefined, param: string, max: number) => {
  const entries = Object.entries(map ?? {});
  if (entries.length > max) throw invalidParameter(param, `${param} has more than ${max} entries.`);
  return entries;
};

/** @throws Problem 400 that names the parameter at fault */
export function codeOfFolder(given: FolderCode): ComponentCode {
  const { component_code: code, component_path = DEFAULT_PATH } = given;
  const modules = Object.fromEntries(
    entriesOf(given.modules, 'modules', MAX_MODULES).map(([path, text]) => [urlOf(path, 'modules'), text]),
  );
  const imports = Object.fromEntries(
    entriesOf(given.imports, 'imports', MAX_NAMES).map(([specifier, path]) => {
      const url = urlOf(path, 'imports');
      if (!Object.hasOwn(modules, url))
        throw invalidParameter('imports', `imports names ${path}, which is not one of the modules.`);
      return [specifier, url];
    }),
  );
  const dependencies = Object.fromEntries(
    entriesOf(given.dependencies, 'dependencies', MAX_NAMES).map(([name, range]) => {
      if (!isVersionRange(range))
        throw invalidParameter('dependencies', `dependencies has no version or range for ${name}.`);
      return [name, range.trim() || '*'];
    }),
  );
  return { code, url: urlOf(component_path, 'component_path'), modules, imports, dependencies };
}

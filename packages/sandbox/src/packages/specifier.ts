import { createHash } from 'node:crypto';
import { isBuiltin } from 'node:module';

/** A parsed import specifier. */
export type Specifier =
  | { kind: 'builtin'; name: string }
  | { kind: 'relative' }
  | { kind: 'package'; name: string; range: string | undefined; subpath: string }
  | { kind: 'refused'; why: string };

const PACKAGE = /^((?:@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]*)(?:@([^/]+))?((?:\/.*)?)$/i;
/** Versions, ranges and tags; no URLs, files or aliases, and no white space, which an alias of pnpm cannot have. */
const RANGE = /^[\w.^~<>=|*+-]{1,100}$/;
const SUBPATH = /^(\/[\w.@~-]+)*$/;

/** Accepts relative modules, packages of the registry and Node's modules. */
export function parseSpecifier(text: string): Specifier {
  if (text.startsWith('./') || text.startsWith('../') || text === '.' || text === '..')
    return { kind: 'relative' };
  if (isBuiltin(text)) return { kind: 'builtin', name: text.startsWith('node:') ? text : `node:${text}` };
  if (/^[a-z][a-z0-9+.-]*:/i.test(text) || text.startsWith('/')) {
    return {
      kind: 'refused',
      why: 'only npm packages, modules of Node and relative modules can be imported',
    };
  }
  const match = PACKAGE.exec(text);
  if (!match) return { kind: 'refused', why: 'it is no name of an npm package' };
  const [, name = '', range, subpath = ''] = match;
  if (range !== undefined && !RANGE.test(range)) return { kind: 'refused', why: `${range} is no version` };
  if (!SUBPATH.test(subpath) || subpath.includes('..'))
    return { kind: 'refused', why: `${subpath} is no path of a package` };
  return { kind: 'package', name, range, subpath };
}

/** The name under which a version of a package is installed, so that several versions can be imported. */
export function aliasOf(name: string, range: string | undefined): string {
  if (range === undefined) return name;
  return `${name}-${createHash('sha256').update(range).digest('hex').slice(0, 10)}`.toLowerCase();
}

import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { importsOf } from './imports.ts';

/** A source file of the workspace; `path` is relative to the root. */
export interface SourceFile {
  path: string;
  text: string;
  imports: string[];
  package: string;
}

export interface PackageManifest {
  name: string;
  /** Relative to the root. */
  directory: string;
  dependencies: string[];
  devDependencies: string[];
}

export interface Tree {
  files: SourceFile[];
  packages: PackageManifest[];
  /** Available to the tests of every package. */
  rootDevDependencies: string[];
}

/** Reads every TypeScript file below the `src` of the workspace's packages and services. */
export async function readTree(root: string): Promise<Tree> {
  const manifestOf = (path: string) => {
    const manifest = JSON.parse(readFileSync(join(root, path), 'utf8'));
    return {
      name: manifest.name as string,
      directory: dirname(path),
      dependencies: Object.keys(manifest.dependencies ?? {}),
      devDependencies: Object.keys(manifest.devDependencies ?? {}),
    };
  };
  const packages = globSync('{packages,services}/*/package.json', { cwd: root }).sort().map(manifestOf);
  const files: SourceFile[] = [];
  for (const { name, directory } of packages) {
    for (const found of globSync(`${directory}/src/**/*.ts`, { cwd: root }).sort()) {
      const path = found.replaceAll('\\', '/');
      const text = readFileSync(join(root, path), 'utf8');
      files.push({ path, text, imports: await importsOf(text), package: name });
    }
  }
  return { files, packages, rootDevDependencies: manifestOf('package.json').devDependencies };
}

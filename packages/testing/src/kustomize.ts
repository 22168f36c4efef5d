import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { deepmergeCustom } from 'deepmerge-ts';
import { parse, parseAllDocuments } from 'yaml';

// biome-ignore lint/suspicious/noExplicitAny: any manifest
export type Fields = Record<string, any>;

export interface Manifest extends Fields {
  apiVersion: string;
  kind: string;
  metadata: { name: string; labels?: Record<string, string> };
}

/** All objects in a file of manifests. */
export const readManifests = (path: string): Manifest[] =>
  parseAllDocuments(readFileSync(path, 'utf8')).map((document) => {
    if (document.errors.length > 0) throw document.errors[0]!;
    return document.toJS() as Manifest;
  });

/** Strategic merge: lists of named items are merged by name, other lists are replaced. */
const merge = deepmergeCustom({
  mergeArrays(lists, { deepmerge }) {
    const items = lists.flat() as Fields[];
    if (!items.every(({ name }) => name)) return lists.at(-1);
    return Object.values(Object.groupBy(items, ({ name }) => name)).map((same) => deepmerge(...same!));
  },
});

/**
 * The objects of a directory with a kustomization.yaml: its resources and components. Patches by path are applied to
 * the objects of the target's kind, else to the object of their own kind and name.
 */
export function readKustomization(directory: string): Manifest[] {
  const read = (file: string): Fields => parse(readFileSync(join(directory, file), 'utf8'));
  const { resources = [], components = [], patches = [] } = read('kustomization.yaml');
  let objects: Manifest[] = [...resources, ...components].flatMap((one) => {
    const path = join(directory, one);
    return existsSync(join(path, 'kustomization.yaml')) ? readKustomization(path) : readManifests(path);
  });
  for (const { path, target } of patches) {
    if (path === undefined) continue;
    const patch = read(path);
    const { kind, name } = target ?? { kind: patch.kind, name: patch.metadata.name };
    objects = objects.map((one) => {
      if (one.kind !== kind || (name !== undefined && one.metadata.name !== name)) return one;
      return merge(one, patch, { metadata: { name: one.metadata.name } }) as Manifest;
    });
  }
  return objects;
}

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';

// biome-ignore lint/suspicious/noExplicitAny: whatever a manifest holds
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

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isNamed = (value: unknown): value is Fields[] =>
  Array.isArray(value) && value.every((one) => isFields(one) && 'name' in one);

/** A strategic merge, as far as our patches need it: items of lists that have names are merged by them. */
function merged(target: unknown, patch: unknown): unknown {
  if (isFields(target) && isFields(patch)) {
    const names = new Set([...Object.keys(target), ...Object.keys(patch)]);
    return Object.fromEntries(
      [...names].map((name) => [
        name,
        name in patch ? (name in target ? merged(target[name], patch[name]) : patch[name]) : target[name],
      ]),
    );
  }
  if (isNamed(target) && isNamed(patch)) {
    const added = patch.filter(({ name }) => !target.some((one) => one.name === name));
    return [...target.map((one) => merged(one, patch.find(({ name }) => name === one.name) ?? {})), ...added];
  }
  return patch;
}

/**
 * The objects that a directory with a kustomization.yaml stands for: its resources, components and patches by path,
 * the latter applied to objects of the target's kind, else of their own kind and name.
 */
export function readKustomization(directory: string): Manifest[] {
  const {
    resources = [],
    components = [],
    patches = [],
  } = parse(readFileSync(join(directory, 'kustomization.yaml'), 'utf8')) as {
    resources?: string[];
    components?: string[];
    patches?: { path?: string; target?: Fields }[];
  };
  let all = [...resources, ...components].flatMap((one) => {
    const path = join(directory, one);
    return existsSync(join(path, 'kustomization.yaml')) ? readKustomization(path) : readManifests(path);
  });
  for (const { path, target } of patches) {
    if (path === undefined) continue;
    const [patch] = readManifests(join(directory, path)) as [Manifest];
    const { metadata, ...rest } = patch;
    const wanted = target ?? { kind: patch.kind, name: metadata.name };
    const { name: _, ...others } = metadata;
    all = all.map((one) =>
      one.kind === wanted.kind && (wanted.name ?? one.metadata.name) === one.metadata.name
        ? (merged(one, { ...rest, metadata: others }) as Manifest)
        : one,
    );
  }
  return all;
}

const namesOf = (list: string) => new Set(list.split(',').map((name) => name.trim()));

export interface Selection {
  /** Names of top-level fields, separated by commas. */
  include?: string | undefined;
  exclude?: string | undefined;
}

/** Keeps the fields that `include` names (default all), then drops those of `exclude`. Unknown names are ignored. */
export function selectFields(resource: unknown, { include, exclude }: Selection): unknown {
  if ((include === undefined && exclude === undefined) || typeof resource !== 'object' || resource === null) {
    return resource;
  }
  const kept = include === undefined ? undefined : namesOf(include);
  const dropped = exclude === undefined ? undefined : namesOf(exclude);
  return Object.fromEntries(
    Object.entries(resource).filter(([name]) => (kept?.has(name) ?? true) && !dropped?.has(name)),
  );
}

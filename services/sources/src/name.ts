import { invalidParameter } from '@wellspring/core/problem';
import { slugAttempt, slugOf } from '@wellspring/core/slug';
import type { SourceRow } from '@wellspring/store/collections/sources';
import { type Collection, ConflictError } from '@wellspring/store/port';

const MAX_LENGTH = 1000;

/** @throws Problem 400: empty or too long */
export function checkName(name: string): string {
  if (name.trim() === '') throw invalidParameter('name', 'name must not be empty.');
  if (name.length > MAX_LENGTH)
    throw invalidParameter('name', `name has more than ${MAX_LENGTH} characters.`);
  return name;
}

/**
 * Writes a row with the first free slug of its owner: the slug of the name, then with `-1`, `-2`, …
 * @param write is called with each slug and throws a ConflictError for one that is taken
 */
export async function withFreeSlug<T>(
  rows: Collection<SourceRow>,
  ownerId: string,
  name: string,
  write: (slug: string) => Promise<T>,
): Promise<T> {
  const slug = slugOf(name);
  for (let n = 0; ; n = await firstFree(rows, ownerId, slug)) {
    try {
      return await write(slugAttempt(slug, n));
    } catch (error) {
      if (!(error instanceof ConflictError) || !error.fields.includes('name_slug')) throw error;
    }
  }
}

async function firstFree(rows: Collection<SourceRow>, ownerId: string, slug: string): Promise<number> {
  // `.` follows `-` in the order of code points.
  const similar = await rows.list({
    where: { owner_id: ownerId, name_slug: { gte: `${slug}-`, lt: `${slug}.` } },
  });
  const taken = new Set(similar.map(({ name_slug }) => name_slug));
  let n = 1;
  while (taken.has(slugAttempt(slug, n))) n += 1;
  return n;
}

import { invalidParameter } from '@wellspring/core/problem';
import { slugAttempt, slugOf } from '@wellspring/core/slug';
import { type SourceRow, sources } from '@wellspring/store/collections/sources';
import { type Collection, ConflictError } from '@wellspring/store/port';
import type { SourcesContext } from './context.ts';

const MAX_LENGTH = 1000;

type NameContext = Pick<SourcesContext, 'oneAtATime'> & { deps: Pick<SourcesContext['deps'], 'store'> };

/** @throws Problem 400: empty or too long */
export function checkName(name: string): string {
  if (name.trim() === '') throw invalidParameter('name', 'name must not be empty.');
  if (name.length > MAX_LENGTH)
    throw invalidParameter('name', `name has more than ${MAX_LENGTH} characters.`);
  return name;
}

/**
 * Writes a row with the first free slug of its owner: the slug of the name, then with `-1`, `-2`, …
 * One at a time for each slug: those that wait would all try the same next number.
 * @param write is called with each slug and throws a ConflictError for one that is taken
 */
export async function withFreeSlug<T>(
  { deps, oneAtATime }: NameContext,
  ownerId: string,
  name: string,
  write: (slug: string) => Promise<T>,
): Promise<T> {
  const rows = deps.store.collection(sources);
  const slug = slugOf(name);
  return oneAtATime(`${ownerId}/${slug}`, async () => {
    for (let n = 0; ; n = await firstFree(rows, ownerId, slug)) {
      try {
        return await write(slugAttempt(slug, n));
      } catch (error) {
        if (!(error instanceof ConflictError) || !error.fields.includes('name_slug')) throw error;
      }
    }
  });
}

/** By counts of ranges of numbers, doubled and then halved: an owner may have thousands of sources with one name. */
async function firstFree(rows: Collection<SourceRow>, ownerId: string, slug: string): Promise<number> {
  let taken = 0;
  let isGrowing = true;
  for (let size = 1; size >= 1; size = isGrowing ? size * 2 : size / 2) {
    const range = Array.from({ length: size }, (_, i) => slugAttempt(slug, taken + 1 + i));
    const isTaken = (await rows.count({ owner_id: ownerId, name_slug: { in: range } })) === size;
    if (isTaken) taken += size;
    else isGrowing = false;
  }
  return taken + 1;
}

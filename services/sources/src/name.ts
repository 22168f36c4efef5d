import { invalidParameter } from '@wellspring/core/problem';
import { slugAttempt, slugOf } from '@wellspring/core/slug';
import { ConflictError } from '@wellspring/store/port';

const LONGEST = 1000;

export function checkName(name: string): string {
  if (name.trim() === '') throw invalidParameter('name', 'name must not be empty.');
  if (name.length > LONGEST) throw invalidParameter('name', `name has more than ${LONGEST} characters.`);
  return name;
}

/**
 * Writes a row under the first slug that its owner has free: the slug of the name, then with `-1`, `-2`, …
 * @param write is called with each slug and throws a ConflictError for one that is taken
 */
export async function withFreeSlug<T>(name: string, write: (slug: string) => Promise<T>): Promise<T> {
  const slug = slugOf(name);
  for (let n = 0; ; n++) {
    try {
      return await write(slugAttempt(slug, n));
    } catch (error) {
      if (!(error instanceof ConflictError) || !error.fields.includes('name_slug')) throw error;
    }
  }
}

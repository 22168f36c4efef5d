const MAX_LENGTH = 200;

/** The slug of a name: lower-case letters and digits of any script, joined by hyphens; never empty. */
export function slugOf(name: string): string {
  const letters = name
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[^\p{Ll}\p{Lo}\p{N}_]+/gu, '-')
    .replace(/^-/, '');
  // By characters: half a surrogate pair would be no letter.
  const slug = [...letters].slice(0, MAX_LENGTH).join('').replace(/-$/, '');
  return slug || 'source';
}

/** The n-th slug to try: the slug itself, then `-1`, `-2`, … */
export const slugAttempt = (slug: string, n: number): string => (n === 0 ? slug : `${slug}-${n}`);

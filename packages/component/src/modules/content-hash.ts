import { createHash } from 'node:crypto';
import type { ComponentCode } from '@wellspring/contract/definition';

/** SHA-256 in hex of the code, its modules and how it imports: equal ones are the same component. */
export function contentHash({ code, modules, url, imports, dependencies }: ComponentCode): string {
  const sorted = [modules, imports, dependencies].map((map) =>
    Object.entries(map ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)),
  );
  const isSingle = sorted.every((entries) => entries.length === 0);
  return createHash('sha256')
    .update(isSingle ? code : JSON.stringify([code, url ?? '', ...sorted]))
    .digest('hex');
}

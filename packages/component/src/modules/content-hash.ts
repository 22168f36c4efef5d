import { subtle } from 'node:crypto';
import type { ComponentCode } from '@wellspring/contract/definition';

/** SHA-256 in hex. Computed by another thread: the code of a component may have megabytes. */
export async function sha256(text: string): Promise<string> {
  return Buffer.from(await subtle.digest('SHA-256', Buffer.from(text))).toString('hex');
}

/** SHA-256 in hex of the code, its modules and how it imports: equal ones are the same component. */
export async function contentHash({
  code,
  modules,
  url,
  imports,
  dependencies,
}: ComponentCode): Promise<string> {
  const sorted = [modules, imports, dependencies].map((map) =>
    Object.entries(map ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)),
  );
  const isSingle = sorted.every((entries) => entries.length === 0);
  return sha256(isSingle ? code : JSON.stringify([code, url ?? '', ...sorted]));
}

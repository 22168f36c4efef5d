import { createHash } from 'node:crypto';
import type { ComponentCode } from '@wellspring/contract/definition';
import { textInPieces } from '@wellspring/core/in-pieces';

/** SHA-256 in hex. Computed in pieces: the code of a component may have megabytes. */
export async function sha256(text: string): Promise<string> {
  const hash = createHash('sha256');
  await textInPieces(text, (part) => hash.update(part));
  return hash.digest('hex');
}

/** Its content hash is the hash of its code. */
export const isSingleFile = (source: ComponentCode): boolean =>
  importsOf(source).every((map) => Object.keys(map).length === 0);

/** SHA-256 in hex of the code, its modules and how it imports: equal ones are the same component. */
export async function contentHash(source: ComponentCode): Promise<string> {
  const { code, url = '' } = source;
  if (isSingleFile(source)) return sha256(code);
  const sorted = importsOf(source).map((map) => Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1)));
  return sha256(JSON.stringify([code, url, ...sorted]));
}

const importsOf = ({ modules = {}, imports = {}, dependencies = {} }: ComponentCode) => [
  modules,
  imports,
  dependencies,
];

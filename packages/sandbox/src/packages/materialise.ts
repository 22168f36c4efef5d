import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Bundle } from '@wellspring/contract/definition';
import type { Packages } from './packager.ts';

/** What a slot is filled with. */
export interface Files {
  /** The code on disk. */
  path: string;
  /** Its name in the slot: the ending tells Node what it is. */
  name: string;
  nodeModules: string | undefined;
}

/** Brings a bundle to disk, once. @param ownerId who waits when packages have to be installed */
export type Materialise = (bundleId: string, bundle: Bundle, ownerId: string) => Promise<Files>;

const KEPT = 1000;

export function createMaterialise(directory: string, packages: Packages): Materialise {
  const kept = new Map<string, Promise<Files>>();

  async function write(bundleId: string, bundle: Bundle, ownerId: string): Promise<Files> {
    const name = bundle.format === 'esm' ? 'component.mjs' : 'component.cjs';
    const path = join(directory, `${bundleId}.${bundle.format === 'esm' ? 'mjs' : 'cjs'}`);
    if (!existsSync(path)) {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const temporary = `${path}.${randomBytes(6).toString('hex')}`;
      await writeFile(temporary, bundle.code);
      // Slots link to it, and another user reads it there; the umask would take that from a mode given above.
      await chmod(temporary, 0o644);
      await rename(temporary, path);
    }
    return { path, name, nodeModules: await packages.provide(bundle, ownerId) };
  }

  return (bundleId, bundle, ownerId) => {
    let files = kept.get(bundleId);
    if (!files) {
      files = write(bundleId, bundle, ownerId);
      kept.set(bundleId, files);
      files.catch(() => kept.delete(bundleId));
      if (kept.size > KEPT) kept.delete(kept.keys().next().value!);
    }
    return files;
  };
}

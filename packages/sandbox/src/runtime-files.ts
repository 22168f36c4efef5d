import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleProgram } from './bundle-program.ts';

/** Programs of separate processes, each bundled into one file. */
export interface Programs {
  /** Program of a child. */
  child: string;
  /** Network of user code; each thread of a child loads it first. */
  network: string;
  /** The relay between sandboxes and the network. */
  relay: string;
  /** Starts the children. */
  spawner: string;
}

const SOURCES = {
  child: ['./entry/main.ts', 'child.mjs', 'esm'],
  network: ['./entry/network/network.ts', 'network.cjs', 'cjs'],
  relay: ['./egress/relay-main.ts', 'relay.cjs', 'cjs'],
  spawner: ['./spawner/main.ts', 'spawner.mjs', 'esm'],
} as const;

/** Writes the programs. @returns their paths */
export async function writePrograms(directory: string): Promise<Programs> {
  await mkdir(directory, { recursive: true });
  // Set separately, since the umask would restrict the mode.
  await chmod(directory, 0o755);
  const written = Object.entries(SOURCES).map(async ([name, [source, file, format]]) => {
    const path = join(directory, file);
    await bundleProgram(new URL(source, import.meta.url), path, { format });
    return [name, path];
  });
  return Object.fromEntries(await Promise.all(written)) as Programs;
}

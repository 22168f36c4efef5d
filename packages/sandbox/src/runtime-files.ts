import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

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
  relay: ['./egress/relay-main.ts', 'relay.mjs', 'esm'],
  spawner: ['./spawner/main.ts', 'spawner.mjs', 'esm'],
} as const;

/** Writes the programs, so that their processes neither strip types nor read the workspace. @returns their paths */
export async function writePrograms(directory: string): Promise<Programs> {
  // Modes are set separately, since the umask would restrict them.
  await mkdir(directory, { recursive: true });
  await chmod(directory, 0o755);
  const written = Object.entries(SOURCES).map(async ([name, [source, file, format]]) => {
    const { outputFiles } = await build({
      entryPoints: [fileURLToPath(new URL(source, import.meta.url))],
      bundle: true,
      format,
      platform: 'node',
      target: 'esnext',
      write: false,
      logLevel: 'silent',
    });
    const path = join(directory, file);
    await writeFile(path, outputFiles[0]!.contents);
    await chmod(path, 0o644);
    return [name, path];
  });
  return Object.fromEntries(await Promise.all(written)) as Programs;
}

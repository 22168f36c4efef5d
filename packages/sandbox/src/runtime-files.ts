import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/**
 * Writes the program of the children as one plain file, so that a child neither strips types nor reads the workspace.
 * @returns its path
 */
export async function writeChildProgram(directory: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL('./child/main.ts', import.meta.url))],
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'esnext',
    write: false,
    logLevel: 'silent',
  });
  // Modes are set apart: the umask of the platform takes them from what is created.
  await mkdir(directory, { recursive: true });
  await chmod(directory, 0o755);
  const path = join(directory, 'child.mjs');
  await writeFile(path, outputFiles[0]!.contents);
  await chmod(path, 0o644);
  return path;
}

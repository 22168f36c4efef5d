import { chmod, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type BuildOptions, build } from 'esbuild';

/**
 * Bundles a program into one file that every user may read, so that its process neither strips types nor reads the
 * workspace.
 * @param path of the bundle; its directory exists
 */
export async function bundleProgram(source: URL, path: string, options: BuildOptions): Promise<void> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(source)],
    bundle: true,
    platform: 'node',
    target: 'esnext',
    write: false,
    logLevel: 'silent',
    ...options,
  });
  await writeFile(path, outputFiles![0]!.contents);
  // Set separately, since the umask would restrict the mode.
  await chmod(path, 0o644);
}

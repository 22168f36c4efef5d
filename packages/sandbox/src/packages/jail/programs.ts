import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import type { JailPrograms } from './jail.ts';

const ENTRIES: Record<keyof JailPrograms, string> = {
  compileNative: 'compile-native',
  compileWasm: 'compile-wasm',
  install: 'install',
};

/** Bundles each program of the jail into one file, so that it does not need the workspace. */
export async function writeJailPrograms(directory: string): Promise<JailPrograms> {
  const written = await Promise.all(
    Object.entries(ENTRIES).map(async ([key, name]) => {
      const { outputFiles } = await build({
        entryPoints: [fileURLToPath(new URL(`../jailed/${name}.ts`, import.meta.url))],
        bundle: true,
        format: 'esm',
        platform: 'node',
        target: 'esnext',
        write: false,
        logLevel: 'silent',
        // The API of esbuild is CommonJS.
        banner: {
          js: "import { createRequire as $require } from 'node:module'; const require = $require(import.meta.url), __filename = import.meta.filename, __dirname = import.meta.dirname;",
        },
      });
      const path = join(directory, `${name}.mjs`);
      await writeFile(path, outputFiles[0]!.contents);
      await chmod(path, 0o644);
      return [key, path] as const;
    }),
  );
  return Object.fromEntries(written) as unknown as JailPrograms;
}

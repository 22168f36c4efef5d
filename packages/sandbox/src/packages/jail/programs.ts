import { basename, join } from 'node:path';
import { bundleProgram } from '../../bundle-program.ts';
import type { JailPrograms } from './jail.ts';

const ENTRIES: Record<keyof JailPrograms, string> = {
  compileNative: 'jailed/compile-native',
  compileWasm: 'jailed/compile-wasm',
  install: 'jailed/install',
  packager: 'packager-process',
};

/** Writes the programs of the jail, and that of the packager, which starts in a fifth of the time when it is bundled. */
export async function writeJailPrograms(directory: string): Promise<JailPrograms> {
  const written = Object.entries(ENTRIES).map(async ([key, name]) => {
    const source = new URL(`../${name}.ts`, import.meta.url);
    const path = join(directory, `${basename(name)}.mjs`);
    await bundleProgram(source, path, {
      format: 'esm',
      // Dependencies are resolved from the source.
      define: { 'import.meta.url': JSON.stringify(source.href) },
      // The API of esbuild is CommonJS.
      banner: {
        js: "import { createRequire as $require } from 'node:module'; const require = $require(import.meta.url), __filename = import.meta.filename, __dirname = import.meta.dirname;",
      },
    });
    return [key, path] as const;
  });
  return Object.fromEntries(await Promise.all(written)) as unknown as JailPrograms;
}

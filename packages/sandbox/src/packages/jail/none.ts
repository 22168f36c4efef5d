import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, existsSync, mkdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { lowerPriority } from '../../scheduling.ts';
import { packageManagerPath } from './binaries.ts';
import type { Jail, JailOptions } from './jail.ts';
import { JAIL_USAGE, withLimits } from './jail.ts';

/** Of util-linux: lets the kernel end a child with its parent. */
const SETPRIV = ['/usr/bin/setpriv', '/bin/setpriv'].find(existsSync);

/**
 * Plain processes, for tier none. The compiler is esbuild in WebAssembly, which has no file system, under the
 * permission model of Node.js. The package manager is confined only by its user; its input was checked to name only
 * tarballs of the registry.
 */
export function createPlainJail(options: JailOptions): Jail {
  const { programs, directory, gateway, user, readable } = options;
  const wasm = createRequire(import.meta.url).resolve('esbuild-wasm/esbuild.wasm');
  const manager = readable.provide(packageManagerPath());
  const node = readable.provide(process.execPath);

  return {
    name: 'none',
    sharesCompilers: true,
    spawn(program) {
      const work = join(directory, randomBytes(12).toString('hex'));
      mkdirSync(work, { mode: 0o700 });
      if (user) chownSync(work, user.uid, user.gid);
      const visibleWasm = readable.provide(wasm);
      const command =
        program === 'compile'
          ? [
              node,
              '--permission',
              `--allow-fs-read=${programs.compileWasm}`,
              `--allow-fs-read=${visibleWasm}`,
              '--max-old-space-size=512',
              '--stack-size=32000',
              '--disable-warning=SecurityWarning',
              programs.compileWasm,
              visibleWasm,
            ]
          : [
              node,
              '--max-old-space-size=512',
              '--experimental-vm-modules',
              '--disable-warning=ExperimentalWarning',
              programs.install,
            ];
      const lasting = SETPRIV === undefined ? command : [SETPRIV, '--pdeathsig', 'KILL', '--', ...command];
      const [file, args] = withLimits(program, lasting);
      const child = spawn(file, args, {
        ...user,
        // A separate process group, which is killed as a whole.
        detached: true,
        cwd: work,
        env: {},
        stdio: ['pipe', 'pipe', 'pipe'],
      });
      lowerPriority(child.pid);
      return {
        child,
        view: {
          directory: work,
          packageManager: manager,
          gateway: { socket: gateway.socket },
          limits: JAIL_USAGE,
        },
        isFull: () => false,
        async end() {
          try {
            if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
          } catch {
            // All processes have ended.
          }
          await rm(work, { recursive: true, force: true, maxRetries: 5 });
        },
      };
    },
  };
}

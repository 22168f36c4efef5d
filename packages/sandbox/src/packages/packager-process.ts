import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Bundle, ComponentCode } from '@wellspring/contract/definition';
import { systemClock } from '@wellspring/core/clock';
import { Problem } from '@wellspring/core/problem';
import type { ProblemCode } from '@wellspring/core/problem-codes';
import { createReadableFiles } from '../readable-files.ts';
import { createCompiler } from './compile.ts';
import { createJail } from './jail/create.ts';
import type { JailChoice, JailOptions, JailPrograms } from './jail/jail.ts';
import { createPackageStore } from './package-store.ts';
import { createGateway } from './registry/gateway.ts';
import { readRegistrySettings } from './registry/settings.ts';
import { createTarballs } from './registry/tarballs.ts';
import { createUpstream } from './registry/upstream.ts';

/**
 * Program of a packager process: gateway to the registry, and processes of the jail. Reads packuments, lockfiles and
 * file trees, so that they neither block the platform nor fill its memory.
 */

export interface PackagerProcessData {
  jail: JailChoice;
  programs: JailPrograms;
  /** Empty directory for sockets and temporary files: every user may enter it, only the platform may write to it. */
  work: string;
  /** Directory of the sets and tarballs. */
  packages: string;
  environment: Record<string, string>;
  user: JailOptions['user'];
}

/** Methods of the process. */
export interface PackagerMethods {
  /** `digest`: SHA-256 of the other fields, which may have megabytes. */
  compile(argument: {
    code: ComponentCode;
    ownerId: string;
  }): Promise<Omit<Bundle, 'lockfile'> & { digest: string }>;
  settle(argument: { packages: Bundle['packages']; ownerId: string }): Promise<string | null>;
  find(bundle: Pick<Bundle, 'packages' | 'lockfile'>): Promise<string | undefined>;
  provide(argument: Pick<Bundle, 'packages' | 'lockfile'> & { ownerId: string }): Promise<string>;
  close(): Promise<void>;
}

export interface PackagerRequest {
  id: number;
  method: keyof PackagerMethods;
  argument: unknown;
}

export type PackagerAnswer =
  | { id: number; value: unknown }
  | { id: number; problem: { status: number; code: ProblemCode; message: string } }
  /** The code is that of a system error. */
  | { id: number; fault: string; code: string | undefined };

async function createMethods(data: PackagerProcessData): Promise<PackagerMethods> {
  const { jail: choice, programs, work, packages, environment, user } = data;
  const socket = join(work, 'g', 's');
  mkdirSync(join(work, 'g'));
  chmodSync(join(work, 'g'), 0o755);
  const settings = readRegistrySettings(environment);
  const gateway = await createGateway({
    socket,
    settings,
    upstream: createUpstream(settings),
    tarballs: createTarballs(join(packages, 'tarballs')),
    now: systemClock.now,
    // The jail of the launcher has no private loopback.
    loopback: choice.name === 'launcher',
  });
  const jail = createJail(choice, {
    programs,
    directory: work,
    gateway: gateway.address,
    user,
    readable: createReadableFiles(work),
  });
  const compiler = createCompiler(jail);
  const store = createPackageStore({ directory: packages, jail, gateway, now: systemClock.now });

  return {
    async compile({ code, ownerId }) {
      const compiled = await compiler.compile(code, ownerId);
      const digest = createHash('sha256').update(JSON.stringify(compiled)).digest('hex');
      return { ...compiled, digest };
    },
    settle: ({ packages: list, ownerId }) => store.settle(list, ownerId),
    find: store.find,
    provide: ({ ownerId, ...bundle }) => store.provide(bundle, ownerId),
    async close() {
      await Promise.all([compiler.close(), store.close()]);
      await gateway.close();
    },
  };
}

let methods: Promise<PackagerMethods>;

process.on('message', async (message: PackagerProcessData | PackagerRequest) => {
  if (!('method' in message)) {
    methods = createMethods(message);
    return;
  }
  const { id, method, argument } = message;
  let answer: PackagerAnswer;
  try {
    const act = (await methods)[method] as (argument: unknown) => Promise<unknown>;
    answer = { id, value: await act(argument) };
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    answer =
      error instanceof Problem
        ? { id, problem: { status: error.status, code: error.code, message } }
        : { id, fault: String(message), code };
  }
  process.send!(answer);
});
// The platform has ended.
process.on('disconnect', () => process.exit());

import type { DiskRoom } from '../disk-room.ts';
import type { Jail } from './jail/jail.ts';
import type { InstallRequest } from './jailed/install.ts';
import { readInstallFrames } from './read-frames.ts';
import { receiveTree } from './receive-tree.ts';

/** The package manager failed, or was killed at a limit. */
export class InstallFailed extends Error {
  override readonly name = 'InstallFailed';
  /** The end of its output. */
  readonly output: string;
  constructor(output: string) {
    super(`Packages could not be installed: ${output.slice(-2000)}`);
    this.output = output;
  }

  /** The message of the package manager, without URLs of the gateway. */
  get reason(): string {
    const messages = [...this.output.matchAll(/"level":"error".*?"message":"((?:[^"\\]|\\.)*)"/g)];
    const message = messages.at(-1)?.[1] ?? 'it took too long or needed too much memory';
    const text = message.replace(/\\n/g, ' ').replace(/\\"/g, '"');
    return text.replace(/http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]+\//g, '').slice(0, 500);
  }
}

const INSTALL_MS = 100_000;
const MAX_LOCKFILE_BYTES = 16 * 1024 * 1024;

type Request = Pick<InstallRequest, 'stage' | 'manifest' | 'lockfile'> & { token: string };

/**
 * Runs the package manager in the jail.
 * @param target empty directory for the files of an installation, and their room
 * @returns the lockfile of a resolution; an empty string for an installation
 * @throws InstallFailed; Problem 400 if the packages are too large
 */
export async function runInstaller(
  jail: Jail,
  { token, ...request }: Request,
  target: { directory: string; room: DiskRoom } | undefined,
  signal: AbortSignal,
): Promise<string> {
  if (signal.aborted) throw new InstallFailed('');
  const { child, view, end, isFull } = jail.spawn('install');
  const timer = setTimeout(() => void end(), INSTALL_MS);
  const abort = () => void end();
  signal.addEventListener('abort', abort, { once: true });

  const tree = target && receiveTree(target.directory, target.room);
  const lockfile: Buffer[] = [];
  let lockfileBytes = 0;
  let failure: string | undefined;
  let errors = '';
  child.on('error', () => {});
  child.stdin.on('error', () => {});
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-4000);
  });
  const full: InstallRequest = {
    ...request,
    directory: view.directory,
    program: view.packageManager,
    gateway: { ...view.gateway, token },
    limits: view.limits ?? null,
  };
  child.stdin.end(`${JSON.stringify(full)}\n`);
  try {
    await readInstallFrames(child.stdout, {
      header(frame) {
        if (frame.type === 'failed') failure = String(frame.output);
        else tree?.header(frame);
      },
      content(part) {
        if (tree) return tree.content(part);
        lockfileBytes += part.length;
        if (lockfileBytes > MAX_LOCKFILE_BYTES) throw new Error('The lockfile is too large');
        lockfile.push(part);
      },
    }).catch(async (error: Error) => {
      if (error.name === 'Problem') throw error;
      await end();
      if (isFull()) throw new InstallFailed('No space left');
      throw new InstallFailed(`${errors}\n${error.message}`);
    });
  } finally {
    tree?.close();
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
    await end();
  }
  if (failure !== undefined) throw new InstallFailed(failure);
  return Buffer.concat(lockfile).toString('utf8');
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { modernAttributes } from './import-attributes.ts';
import { jsonLines } from './lines.ts';
import { holdsMoreThan, type UsageLimits, watchUsage } from './watch-usage.ts';

/**
 * Program that runs the package manager in the jail. Reads a request from stdin, writes frames to stdout: length of the
 * header (u32 LE), header (JSON), `size` bytes of content.
 */

export interface InstallRequest {
  stage: 'resolve' | 'install';
  manifest: string;
  lockfile: string | null;
  /** Empty, writable directory. */
  directory: string;
  /** Path of the package manager. */
  program: string;
  /** Unix socket or port of the gateway, and the token of the session. */
  gateway: ({ socket: string } | { port: number }) & { token: string };
  /** Limits of the directory; null: the jail enforces them. */
  limits: UsageLimits | null;
}

export type InstallFrame =
  | { type: 'lockfile'; size: number }
  | { type: 'file'; path: string; size: number }
  /** The package manager failed; `output`: the end of its output. */
  | { type: 'failed'; output: string; size: 0 }
  | { type: 'done'; size: 0 };

const FLAGS = [
  'install',
  '--prod',
  // Do not run code of packages.
  '--ignore-scripts',
  '--ignore-pnpmfile',
  '--ignore-workspace',
  '--config.node-linker=hoisted',
  '--config.strict-peer-dependencies=false',
  '--config.auto-install-peers=true',
  '--config.block-exotic-subdeps=true',
  '--config.verify-deps-before-run=false',
  '--config.manage-package-manager-versions=false',
  // The gateway retries requests and hides versions that are too young.
  '--config.fetch-retries=0',
  '--config.minimum-release-age=0',
  '--reporter=ndjson',
];
/** Part of the package manager's last line; it may run for seconds afterwards. */
const DONE = '"pnpm:execution-time"';
const MAX_REWRITTEN_BYTES = 4 * 1024 * 1024;
const OUTPUT_CHARACTERS = 16_000;
const NO_SPACE = 'No space left: the packages are too large.';

async function send(header: InstallFrame, content?: Buffer): Promise<void> {
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(json.length);
  process.stdout.write(length);
  process.stdout.write(json);
  if (content && !process.stdout.write(content)) await once(process.stdout, 'drain');
}

/** Forwards connections on loopback, the only network of the jail, to the gateway. */
async function forward(socket: string): Promise<number> {
  const server = createServer((inside) => {
    const outside = connect(socket);
    inside.on('error', () => outside.destroy());
    outside.on('error', () => inside.destroy());
    inside.pipe(outside).pipe(inside);
  });
  server.unref().listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** @returns undefined on success, otherwise its output */
async function runPackageManager(request: InstallRequest, port: number): Promise<string | undefined> {
  const { directory, program, stage, gateway, limits } = request;
  const flags = stage === 'resolve' ? ['--lockfile-only', '--no-frozen-lockfile'] : ['--frozen-lockfile'];
  const child = spawn(
    program,
    [
      ...FLAGS,
      `--config.registry=http://127.0.0.1:${port}/${gateway.token}/`,
      `--config.store-dir=${join(directory, 'store')}`,
      `--config.cache-dir=${join(directory, 'cache')}`,
      `--config.state-dir=${join(directory, 'state')}`,
      ...flags,
    ],
    {
      cwd: join(directory, 'project'),
      env: { CI: 'true', HOME: directory, TMPDIR: join(directory, 'tmp'), NO_PROXY: '*' },
      // Not 'ignore': there may be no /dev/null.
      stdio: ['pipe', 'pipe', 'pipe'],
    },
  );
  child.stdin.on('error', () => {}).end();
  let output = '';
  const finished = new Promise<number | null>((resolve, reject) => {
    const receive = (text: string) => {
      output = (output + text).slice(-OUTPUT_CHARACTERS);
      if (output.includes(DONE)) resolve(0);
    };
    child.stdout.setEncoding('utf8').on('data', receive);
    child.stderr.setEncoding('utf8').on('data', receive);
    child.once('error', reject).once('close', resolve);
  });
  const stop = new AbortController();
  const watched = limits === null ? false : watchUsage(directory, limits, stop.signal);
  void Promise.resolve(watched).then((isFull) => isFull && child.kill('SIGKILL'));
  const code = await finished;
  stop.abort();
  child.kill('SIGKILL');
  const isFull = (await watched) || (limits !== null && (await holdsMoreThan(directory, limits)));
  if (isFull) return NO_SPACE;
  return code === 0 ? undefined : output;
}

/** Sends regular files. Ignores links, which packages of the registry do not need. */
async function sendTree(directory: string, below: string): Promise<void> {
  for (const entry of await readdir(join(directory, below), { withFileTypes: true })) {
    // Files of the package manager itself.
    if (below === '' && entry.name.startsWith('.')) continue;
    const path = below === '' ? entry.name : `${below}/${entry.name}`;
    if (entry.isDirectory()) await sendTree(directory, path);
    else if (entry.isFile()) await sendFile(directory, path);
  }
}

async function sendFile(directory: string, path: string): Promise<void> {
  const file = join(directory, path);
  const { size } = await stat(file);
  if (size > MAX_REWRITTEN_BYTES) {
    await send({ type: 'file', path, size });
    for await (const chunk of createReadStream(file))
      if (!process.stdout.write(chunk)) await once(process.stdout, 'drain');
    return;
  }
  const content = await readFile(file);
  const modern = /\.m?js$/.test(path) ? modernAttributes(content) : content;
  await send({ type: 'file', path, size: modern.length }, modern);
}

for await (const message of jsonLines(process.stdin)) {
  const request = message as InstallRequest;
  const { directory, stage, manifest, lockfile, gateway } = request;
  const project = join(directory, 'project');
  await mkdir(project, { recursive: true });
  await mkdir(join(directory, 'tmp'), { recursive: true });
  await writeFile(join(project, 'package.json'), manifest);
  if (lockfile !== null) await writeFile(join(project, 'pnpm-lock.yaml'), lockfile);
  const port = 'port' in gateway ? gateway.port : await forward(gateway.socket);
  const output = await runPackageManager(request, port);
  if (output !== undefined) await send({ type: 'failed', output, size: 0 });
  else if (stage === 'resolve') {
    const text = await readFile(join(project, 'pnpm-lock.yaml'));
    await send({ type: 'lockfile', size: text.length }, text);
  } else await sendTree(join(project, 'node_modules'), '');
  await send({ type: 'done', size: 0 });
  break;
}
process.stdout.end(() => process.exit(0));

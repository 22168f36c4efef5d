import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { made, pythonWith } from './cached.ts';

/** Gives the command that starts a server on a port; `directory` is what it may write to. */
export type ServerCommand = (port: number, directory: string) => string[];

const NX_27017 = ['nx-27017==0.8.1', 'neosqlite==1.17.2'];
const OURS = fileURLToPath(new URL('./mongodb/', import.meta.url));

const run = promisify(execFile);

/** MongoDB's default order of strings is that of their bytes; the server has Java's, that of UTF-16. */
async function correctOrder(comparator: string): Promise<void> {
  const source = await readFile(comparator, 'utf8');
  const wrong = 'return value1.toString().compareTo(value2.toString());';
  const right = `return java.util.Arrays.compareUnsigned(
                value1.toString().getBytes(java.nio.charset.StandardCharsets.UTF_8),
                value2.toString().getBytes(java.nio.charset.StandardCharsets.UTF_8));`;
  if (!source.includes(wrong)) throw new Error(`${comparator} compares strings in another way than it did`);
  await writeFile(comparator, source.replace(wrong, right));
}

/** mongo-java-server: it keeps nothing. Fetched by Maven and compiled on first use. */
export async function javaServer(): Promise<ServerCommand> {
  const [pom, launcher] = [join(OURS, 'pom.xml'), join(OURS, 'MongoServerForTests.java')];
  const key = (await Promise.all([pom, launcher].map((path) => readFile(path, 'utf8')))).join();
  const path = await made('mongo-java-server', `1${key}`, async (directory) => {
    const [jars, classes] = [join(directory, 'jars'), join(directory, 'classes')];
    await run('mvn', ['-q', '-B', '-f', pom, 'dependency:copy-dependencies', `-DoutputDirectory=${jars}`]);
    const comparator = 'de/bwaldvogel/mongo/backend/ValueComparator.java';
    await run('jar', ['xf', join(jars, 'mongo-java-server-core-1.47.0-sources.jar'), comparator], {
      cwd: directory,
    });
    await correctOrder(join(directory, comparator));
    await run('javac', ['-nowarn', '-cp', `${jars}/*`, '-d', classes, join(directory, comparator), launcher]);
  });
  return (port) => [
    'java',
    '-Xmx512m',
    '-XX:+UseSerialGC',
    '-XX:TieredStopAtLevel=1',
    '-cp',
    `${path}/classes:${path}/jars/*`,
    'MongoServerForTests',
    `${port}`,
  ];
}

/** nx-27017: what it acknowledged is in a SQLite file, and outlives SIGKILL. Installed by pip on first use. */
export async function durableServer(): Promise<ServerCommand> {
  const python = await pythonWith('nx-27017', NX_27017);
  return (port, directory) => [
    python,
    join(OURS, 'nx_server.py'),
    '--data-dir',
    join(directory, 'data'),
    '--pid-file',
    // It does not start where one is left.
    join(directory, `pid-${randomUUID()}`),
    '--log-file',
    join(directory, 'log'),
    '-p',
    `${port}`,
  ];
}

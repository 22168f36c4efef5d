import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from '../free-port.ts';
import { tempDir } from '../temp-dir.ts';
import { made } from './cached.ts';
import type { TestServer } from './server.ts';
import { startServer } from './start-server.ts';

const OURS = fileURLToPath(new URL('./mongo-java-server/', import.meta.url));

const run = promisify(execFile);

/**
 * A server that speaks MongoDB's protocol and has its plain statements only, as others do that call themselves
 * compatible: no transactions, no pipeline updates, no partial indexes, no change streams. It keeps nothing.
 * @throws Error with its output when it does not start
 */
export async function startMongoJavaServer(): Promise<TestServer> {
  const path = await compiled();
  const directory = await tempDir();
  const port = await freePort();
  const flags = ['-Xmx512m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];
  const command = [
    'java',
    ...flags,
    '-cp',
    `${path}/classes:${path}/jars/*`,
    'MongoServerForTests',
    `${port}`,
  ];
  return startServer({
    name: 'mongo-java-server',
    url: `mongodb://127.0.0.1:${port}`,
    command,
    directory,
    answers: () => listens(port),
    patience: { ms: 30_000 },
  });
}

/** Fetched by Maven and compiled on first use. */
async function compiled(): Promise<string> {
  const [pom, launcher] = [join(OURS, 'pom.xml'), join(OURS, 'MongoServerForTests.java')];
  const key = (await Promise.all([pom, launcher].map((path) => readFile(path, 'utf8')))).join();
  return made('mongo-java-server', `1${key}`, async (directory) => {
    const [jars, classes] = [join(directory, 'jars'), join(directory, 'classes')];
    await run('mvn', ['-q', '-B', '-f', pom, 'dependency:copy-dependencies', `-DoutputDirectory=${jars}`]);
    const comparator = 'de/bwaldvogel/mongo/backend/ValueComparator.java';
    await run('jar', ['xf', join(jars, 'mongo-java-server-core-1.47.0-sources.jar'), comparator], {
      cwd: directory,
    });
    await correctOrder(join(directory, comparator));
    await run('javac', ['-nowarn', '-cp', `${jars}/*`, '-d', classes, join(directory, comparator), launcher]);
  });
}

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

/** It answers as soon as it takes connections. */
function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true));
    socket.once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

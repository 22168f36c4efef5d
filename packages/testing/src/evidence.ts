import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLog } from '@wellspring/core/log';
import { openMongo } from '@wellspring/mongodb/client';
import type { Cluster } from './cluster.ts';
import type { ServerSet } from './servers/server-set.ts';

/**
 * Saves the state after a failed suite, before the clean-up: collections, queues, metrics and logs of every process.
 * @returns the directory
 */
export async function keepEvidence(cluster: Cluster, servers: ServerSet): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'wellspring-evidence-'));
  const keep = (name: string, text: string) => writeFile(join(directory, name), text);
  await keep('output.log', cluster.output());
  for (const one of cluster.processes) {
    const headers = { authorization: `Bearer ${cluster.adminKey}` };
    const metrics = await fetch(`${one.adminUrl}/metrics`, { headers })
      .then((answer) => answer.text())
      .catch(String);
    await keep(`${cluster.nameOf(one)}.metrics`, metrics);
  }
  await keep('queues.txt', await servers.rabbit.queues().catch(String));
  const mongo = await openMongo({
    url: servers.urls.mongodb,
    log: silentLog,
    signal: AbortSignal.timeout(30_000),
  });
  try {
    for (const { name } of await mongo.db.listCollections().toArray()) {
      const rows = await mongo.db.collection(name).find({}).toArray();
      await keep(`${name}.json`, rows.map((row) => JSON.stringify(row)).join('\n'));
    }
  } finally {
    await mongo.close();
  }
  return directory;
}

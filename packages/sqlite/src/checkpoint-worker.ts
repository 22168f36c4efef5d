import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';

/** Entry of the checkpoint thread; see checkpoints.ts. */

const db = new DatabaseSync(workerData as string);
const checkpoints = {
  PASSIVE: db.prepare('PRAGMA wal_checkpoint(PASSIVE)'),
  TRUNCATE: db.prepare('PRAGMA wal_checkpoint(TRUNCATE)'),
};

// An error ends the thread.
parentPort!.on('message', (mode: keyof typeof checkpoints) =>
  parentPort!.postMessage(checkpoints[mode].get()),
);

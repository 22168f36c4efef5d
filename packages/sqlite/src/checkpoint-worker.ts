import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';

/** Entry of the checkpoint thread; see checkpoints.ts. */

const db = new DatabaseSync(workerData as string);
const checkpoint = db.prepare('PRAGMA wal_checkpoint(PASSIVE)');

// An error ends the thread.
parentPort!.on('message', () => parentPort!.postMessage(checkpoint.get()));

import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';

/** Entry of the thread that brings the log into the database file; see checkpoints.ts. */

const db = new DatabaseSync(workerData as string);
const checkpoint = db.prepare('PRAGMA wal_checkpoint(PASSIVE)');

// What it throws ends the thread.
parentPort!.on('message', () => parentPort!.postMessage(checkpoint.get()));

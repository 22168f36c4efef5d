import { parentPort } from 'node:worker_threads';
import { readFrame } from './frame-schema.ts';
import { ProtocolError } from './protocol.ts';

/** Entry of the worker thread that reads large frames; see frame-parser.ts. */

interface Request {
  type: number;
  parts: Uint8Array[];
}

parentPort!.on('message', ({ type, parts }: Request) => {
  try {
    parentPort!.postMessage({ message: readFrame(type, Buffer.concat(parts)) });
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    parentPort!.postMessage({ violation: error.message });
  }
});

import { parentPort } from 'node:worker_threads';
import { readFrame } from './frame-schema.ts';
import { ProtocolError } from './protocol.ts';

/** Entry of the worker thread that reads large frames; see frame-parser.ts. */

interface Request {
  type: number;
  content: Uint8Array;
}

parentPort!.on('message', ({ type, content }: Request) => {
  try {
    const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
    parentPort!.postMessage({ message: readFrame(type, bytes) });
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    parentPort!.postMessage({ violation: error.message });
  }
});

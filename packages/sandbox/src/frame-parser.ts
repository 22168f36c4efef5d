import { Worker } from 'node:worker_threads';
import { createFairQueue } from './fair-queue.ts';
import { contentOf, type Frame } from './frame-reader.ts';
import type { ChildMessage } from './frame-schema.ts';
import { ProtocolError } from './protocol.ts';

/** Reads large frames in a worker thread: parsing megabytes of JSON would block the main thread. */
export interface FrameParser {
  /**
   * Owners take turns. Each process has at most one frame in the queue, which bounds it. Releases the frame.
   * @param frame in blocks, or it is copied
   * @throws ProtocolError if the content does not match its schema, or needs more memory than the thread has
   */
  parse(owner: string, frame: Frame): Promise<ChildMessage>;
  close(): Promise<void>;
}

interface Job {
  frame: Frame;
  resolve(message: ChildMessage): void;
  reject(error: Error): void;
}

type Answer = { message: ChildMessage } | { violation: string };

/** Memory for 6 MB of JSON, parsed, and the message. */
const MAX_HEAP_MB = 768;

export function createFrameParser(): FrameParser {
  const queue = createFairQueue<Job>();
  let worker: Worker | undefined;
  let current: Job | undefined;
  let closed = false;

  function settle(finish: (job: Job) => void): void {
    const job = current;
    current = undefined;
    job?.frame.release();
    if (job) finish(job);
    next();
  }

  function start(): Worker {
    const started = new Worker(new URL('./frame-worker.ts', import.meta.url), {
      // The thread does not need the environment or arguments of the platform.
      env: {},
      argv: [],
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
    });
    started.on('message', (answer: Answer) =>
      settle(({ resolve, reject }) =>
        'message' in answer ? resolve(answer.message) : reject(new ProtocolError(answer.violation)),
      ),
    );
    const lost = (why: string) => {
      if (worker !== started) return;
      worker = undefined;
      settle(({ reject }) => reject(new ProtocolError(`a frame that could not be read (${why})`)));
    };
    started.on('error', (error) => lost(String(error)));
    started.on('exit', () => lost('the thread ended'));
    started.unref();
    return started;
  }

  function next(): void {
    if (closed || current) return;
    current = queue.shift();
    if (!current) return;
    worker ??= start();
    const { type, parts } = current.frame;
    worker.postMessage({ type, parts });
  }

  return {
    parse: (owner, frame) =>
      new Promise((resolve, reject) => {
        if (closed) return reject(new ProtocolError('a frame after the end'));
        queue.push(owner, { frame: frame.inBlocks ? frame : copied(frame), resolve, reject });
        next();
      }),
    async close() {
      closed = true;
      const running = worker;
      worker = undefined;
      const over = new ProtocolError('a frame after the end');
      current?.reject(over);
      for (let job = queue.shift(); job; job = queue.shift()) job.reject(over);
      await running?.terminate();
    },
  };
}

/** The memory of a chunk is used again before the thread has read it. */
function copied(frame: Frame): Frame {
  const own = Buffer.allocUnsafeSlow(frame.size);
  contentOf(frame).copy(own);
  return { ...frame, parts: [own] };
}

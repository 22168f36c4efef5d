import { Worker } from 'node:worker_threads';
import type { ComponentCode } from '@wellspring/contract/definition';
import { invalidComponent } from '@wellspring/core/problem';
import type { Compiled } from './bundle-code.ts';

/**
 * Compiles code in threads of their own, with a compiler that knows no file system: code could otherwise name files
 * of the host, end the compiler for everybody (nested a million deep), or keep it busy for ever.
 */

/** Compilers at a time: each takes some 100 MB. */
const MOST_THREADS = 2;
const COMPILE_MS = 30_000;
/** A compiler that nobody needs for so long is ended. */
const IDLE_MS = 60_000;
/** Of its stack: deeper code is refused. */
const STACK_MB = 32;
const HEAP_MB = 512;

const THREAD = new URL('./compile-thread.ts', import.meta.url);

interface Thread {
  worker: Worker;
  retirement: NodeJS.Timeout | undefined;
}

const idle: Thread[] = [];
const line: (() => void)[] = [];
let busy = 0;

function start(): Thread {
  const worker = new Worker(THREAD, {
    // Nothing of the host but the program: its own flags, no environment.
    env: {},
    execArgv: [],
    resourceLimits: { stackSizeMb: STACK_MB, maxOldGenerationSizeMb: HEAP_MB },
  });
  const thread: Thread = { worker, retirement: undefined };
  worker.on('error', () => {});
  worker.once('exit', () => {
    clearTimeout(thread.retirement);
    const at = idle.indexOf(thread);
    if (at >= 0) idle.splice(at, 1);
  });
  return thread;
}

function rest(thread: Thread): void {
  thread.worker.unref();
  thread.retirement = setTimeout(() => thread.worker.terminate(), IDLE_MS);
  thread.retirement.unref();
  idle.push(thread);
}

function takeThread(): Thread {
  const thread = idle.pop();
  if (!thread) return start();
  clearTimeout(thread.retirement);
  thread.worker.ref();
  return thread;
}

/** Undefined: the compiler did not survive it, or took too long. */
function ask({ worker }: Thread, code: ComponentCode): Promise<Compiled | { refused: string } | undefined> {
  return new Promise((resolve) => {
    const settle = (answer?: Compiled | { refused: string }) => {
      clearTimeout(timer);
      worker.off('message', settle);
      worker.off('exit', gone);
      resolve(answer);
    };
    const gone = () => settle();
    const timer = setTimeout(gone, COMPILE_MS);
    worker.once('message', settle).once('exit', gone);
    worker.postMessage(code);
  });
}

/** @throws Problem 400 with the parser's message, or when the code is more than the compiler can take */
export async function compile(code: ComponentCode): Promise<Compiled> {
  if (busy === MOST_THREADS) await new Promise<void>((turn) => line.push(turn));
  else busy += 1;
  const thread = takeThread();
  const answer = await ask(thread, code);
  if (answer) rest(thread);
  else await thread.worker.terminate();
  // Whoever waits takes over the place.
  const next = line.shift();
  if (next) next();
  else busy -= 1;
  if (!answer) throw invalidComponent('The code is too large, or nested too deeply, to be compiled.');
  if ('refused' in answer) throw invalidComponent(answer.refused);
  return answer;
}

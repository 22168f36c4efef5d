import type { Writable } from 'node:stream';
import { SingleBar } from 'cli-progress';
import type { Progress } from './import.ts';

/** Without a terminal, a line after so many components. */
const LINE_EVERY = 100;

/** A bar on a terminal, lines elsewhere. */
export function createProgress(output: Writable & { isTTY?: boolean }): Progress {
  return output.isTTY ? bar(output) : lines(output);
}

function bar(output: Writable): Progress {
  const single = new SingleBar({
    stream: output as NodeJS.WriteStream,
    format: '{bar} {value}/{total} {eta_formatted} {path}',
    hideCursor: true,
    etaBuffer: 100,
    fps: 5,
  });
  return {
    start: (total) => single.start(total, 0, { path: '' }),
    step: (path) => single.increment({ path: path.slice(-60) }),
    stop: () => single.stop(),
  };
}

function lines(output: Writable): Progress {
  let total = 0;
  let done = 0;
  return {
    start(count) {
      total = count;
      output.write(`${total} components\n`);
    },
    step() {
      done += 1;
      if (done % LINE_EVERY === 0) output.write(`${done} of ${total}\n`);
    },
    stop() {},
  };
}

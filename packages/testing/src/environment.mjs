import { TestEnvironment } from 'jest-environment-node';
import { describeSockets, watchResources } from './leaks.mjs';

/** The environment of every test file: fails a file that leaves a server, a connection or a process behind. */
export default class LeakFreeEnvironment extends TestEnvironment {
  #leaked;

  async handleTestEvent({ name }) {
    if (name === 'run_start') this.#leaked = watchResources();
    if (name !== 'run_finish') return;
    const left = await this.#leaked();
    if (left.length > 0)
      throw new Error(
        `The tests of this file are over, but these are still open: ${left.join(', ')}${describeSockets()}`,
      );
  }
}

import { TestEnvironment } from 'jest-environment-node';
import { describeSockets, watchResources } from './leaks.mjs';

/** Environment of every test file; fails a file that leaves a server, connection or process open. */
export default class LeakFreeEnvironment extends TestEnvironment {
  #leaked;

  async handleTestEvent({ name }) {
    if (name === 'run_start') this.#leaked = watchResources();
    if (name !== 'run_finish') return;
    const left = await this.#leaked();
    if (left.length > 0)
      throw new Error(
        `The tests of this file have ended, but these are still open: ${left.join(', ')}${describeSockets()}`,
      );
  }
}

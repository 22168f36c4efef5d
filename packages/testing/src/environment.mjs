import { TestEnvironment } from 'jest-environment-node';
import { describeSockets, watchResources } from './leaks.mjs';

/** Environment of every test file; fails a file that leaves a server, connection or process open. */
export default class LeakFreeEnvironment extends TestEnvironment {
  #leaked;
  #failed = false;

  async handleTestEvent({ name, test }) {
    if (name === 'run_start') this.#leaked = watchResources();
    if (name === 'test_done') this.#failed ||= test.errors.length > 0;
    // A test that failed may leave anything, and an error here would replace its report.
    if (name !== 'run_finish' || this.#failed) return;
    const left = await this.#leaked();
    if (left.length > 0)
      throw new Error(
        `The tests of this file have ended, but these are still open: ${left.join(', ')}${describeSockets()}`,
      );
  }
}

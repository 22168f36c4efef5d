import { constants } from 'node:os';
import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { forSuite } from '@wellspring/testing/lifetimes';
import { isAlive, isStopped } from '../processes.fixture.ts';
import { openSandbox, TIERS, values } from '../sandbox.fixture.ts';
import { pidOfTitle } from './host-view.fixture.ts';
import { type Attempt, compileAddon } from './native-addon.fixture.ts';
import { attack } from './rows.ts';

const STOP_ITSELF = `process.kill(process.pid, 'SIGSTOP')`;

describe.each(TIERS)('code in tier %s', (tier) => {
  const sandbox = forSuite(() => openSandbox(tier, { freezeAfterMs: Number.POSITIVE_INFINITY }));

  /**
   * Makes the attack in the process of a source, which then waits forever, and checks its state from the host.
   * @param stops whether the kernel stops the process
   */
  async function attackItself(name: string, body: string, stops: boolean, event: unknown = null) {
    const key = `${name}/26a`;
    const title = `row26a-${tier}-${name}`;
    const code = `if (event.attack === undefined) { process.title = ${JSON.stringify(title)}; return 'works'; }
      await (async (event) => { ${body} })(event.attack);
      return await new Promise(() => {})`;
    const works = async () => expect(values(await sandbox.run(code, { process: key }))).toEqual(['works']);
    await works();
    const pid = pidOfTitle(title);
    await eventually(() => !isStopped(pid));
    // A stopped process has to be seen before its deadline.
    const timeoutMs = stops ? 10_000 : 2_000;
    const running = sandbox.run(code, { process: key, event: { attack: event }, timeoutMs });
    if (stops) await eventually(() => isStopped(pid));
    expect(await running).toMatchObject({ ok: false, reason: 'timeout' });
    await eventually(() => !isAlive(pid));
    await works();
    expect(pidOfTitle(title)).not.toBe(pid);
  }

  test(`that stops itself is killed at its deadline, or refused (row ${attack('26a', tier).id})`, async () => {
    const stopByTerminal = `process.kill(process.pid, 'SIGTSTP')`;
    if (tier === 'none') {
      for (const body of [STOP_ITSELF, stopByTerminal])
        expect(await sandbox.run(body)).toMatchObject({
          error: { message: 'EPERM: process.kill is not allowed' },
        });
      return;
    }
    // Process 1 of a PID namespace cannot be stopped from within it.
    const stops = tier !== 'bubblewrap';
    await attackItself('stop', STOP_ITSELF, stops);
    // The kernel ignores this one: the process group has no terminal and no parent in its session.
    await attackItself('tstp', stopByTerminal, false);
    const thread = `const { Worker } = await import('node:worker_threads');
      new Worker(${JSON.stringify(STOP_ITSELF)}, { eval: true });`;
    await attackItself('thread', thread, stops);
    const addon = compileAddon();
    const tgkill: Attempt = {
      name: 'tgkill',
      steps: [['getpid'], ['tgkill', { step: 0 }, { step: 0 }, constants.signals.SIGSTOP]],
    };
    await attackItself('native', addon.body, stops, addon.event([tgkill]));
    addon.remove();
  }, 120_000);
});

import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { compileAddon, MAP_ANONYMOUS, MAP_PRIVATE } from '../attacks/native-addon.fixture.ts';
import { BURN, codeProcesses, descendants } from '../processes.fixture.ts';
import { openSandbox, TIERS, values } from '../sandbox.fixture.ts';
import { childrenOf } from '../spawner/process-tree.ts';

const [READ, READ_WRITE] = [1, 3];

/** Processor time of a process with one thread, in ms. */
const cpuMsOf = (pid: number) => Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;

(TIERS.includes('launcher') ? test : test.skip)(
  'the time that the launcher needs for code with very many mappings is charged to the code',
  async () => {
    const addon = compileAddon();
    try {
      // No pool, so that there is one process of code.
      await using sandbox = await openSandbox('launcher', {
        pool: 0,
        freezeAfterMs: Number.POSITIVE_INFINITY,
      });
      // Neighbours with different rights are separate mappings.
      const { body, event } = addon.calling(`for (let n = 0; n < 20_000; n++)
        call(event.mmap, 0, 4096, n % 2 ? ${READ} : ${READ_WRITE}, ${MAP_PRIVATE | MAP_ANONYMOUS}, -1, 0);`);
      const code = `if (event.addon) { ${body} return }
        ${BURN} const from = process.cpuUsage(); burn(1000);
        const { user, system } = process.cpuUsage(from); return (user + system) / 1000`;
      expect(await sandbox.run(code, { process: 'maps/1', event })).toMatchObject({ ok: true });
      const { pid } = codeProcesses()[0]!;
      const launcher = descendants(process.pid).find((one) => childrenOf(one)?.includes(pid))!;
      const before = cpuMsOf(launcher);
      const outcome = await sandbox.run(code, { process: 'maps/1' });
      const launcherMs = cpuMsOf(launcher) - before;
      const [ownMs] = values(outcome) as [number];
      expect(launcherMs).toBeGreaterThan(30);
      // The last measurement may belong to the next run.
      expect(outcome.cpuMs).toBeGreaterThan(ownMs + launcherMs / 2);
    } finally {
      addon.remove();
    }
  },
  120_000,
);

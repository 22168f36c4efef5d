import { readFileSync } from 'node:fs';
import { describe, expect } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { openSandbox, TIERS, values } from '../sandbox.fixture.ts';
import { CHILD_LIMITS } from '../tiers/tier.ts';
import { attackOnce, attackRow } from './attempt.fixture.ts';
import { pidOfTitle } from './host-view.fixture.ts';

describe.each(TIERS)('exhausting resources in tier %s', (tier) => {
  const sandbox = forSuite(() => openSandbox(tier));

  const row = attackRow(tier);

  row(
    '18',
    async () => {
      const endless = [
        'for (;;);',
        `/^(a+)+$/.test('a'.repeat(60) + 'b')`,
        'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
        'await new Promise(() => {})',
      ];
      for (const body of endless) {
        const outcome = await attackOnce(sandbox, body, {
          process: `row18/${endless.indexOf(body)}`,
          timeoutMs: 500,
        });
        expect(outcome).toMatchObject({ ok: false, reason: 'timeout' });
      }
    },
    60_000,
  );

  row(
    '19',
    async () => {
      const before = process.memoryUsage().rss;
      const bombs = [
        'const a = []; for (;;) a.push(new Array(1e5).fill(Math.random()))',
        'const a = []; for (;;) { a.push(new SharedArrayBuffer(16e6)); new Uint8Array(a.at(-1)).fill(1); await new Promise(setImmediate) }',
        'const a = []; for (;;) { a.push(new WebAssembly.Memory({ initial: 256 })); new Uint8Array(a.at(-1).buffer).fill(1); await new Promise(setImmediate) }',
        `let s = 'x'; const a = []; for (;;) { a.push(Buffer.from(s = s.length > 1e7 ? 'x' : s + s + a.length)); await new Promise(setImmediate) }`,
      ];
      // Positive control: smaller amounts are allowed.
      for (const part of [
        'Buffer.alloc(16e6, 1)',
        'new SharedArrayBuffer(16e6)',
        'new WebAssembly.Memory({ initial: 256 }).buffer',
      ])
        expect(values(await sandbox.run(`return ${part}.byteLength >= 16e6`))).toEqual([true]);
      for (const body of bombs) {
        const outcome = await attackOnce(sandbox, body, { process: 'row19/1', timeoutMs: 30_000 });
        expect(outcome).toMatchObject({ ok: false });
        if (!outcome.ok && outcome.reason === 'thrown') expect(outcome.error.name).toBe('RangeError');
        else expect(outcome).toMatchObject({ reason: 'memory' });
      }
      expect(process.memoryUsage().rss - before).toBeLessThan(300e6);
    },
    120_000,
  );

  row(
    '20',
    async () => {
      const open = (most: number) => `const open = []; let failure;
      try { while (open.length < ${most}) open.push(fs.openSync(import.meta.filename)) } catch ({ code }) { failure = code }
      for (const fd of open) fs.closeSync(fd);
      return [failure ?? 'none', open.length]`;
      expect(values(await sandbox.run(open(50)))).toEqual([['none', 50]]);
      const [[failure, count]] = values(await sandbox.run(open(Number.MAX_SAFE_INTEGER))) as [
        [string, number],
      ];
      expect(failure).toBe('EMFILE');
      expect(count).toBeGreaterThan(50);
      expect(count).toBeLessThan(CHILD_LIMITS.nofile);

      const threads = (count: number) => `const { Worker } = await import('node:worker_threads');
      let online = 0; const failures = new Set();
      const start = () => new Promise((resolve, reject) =>
        new Worker('setInterval(() => {}, 1000)', { eval: true }).on('error', reject).on('online', resolve));
      for (let i = 0; i < ${count}; i++) try { await start(); online += 1 } catch ({ code }) { failures.add(code) }
      return { online, failures: [...failures] }`;
      expect(values(await sandbox.run(threads(5)))).toEqual([{ online: 5, failures: [] }]);
      const title = `row20-${process.pid}`;
      const options = { process: 'row20/1', timeoutMs: 30_000 };
      const [many] = values(
        await sandbox.run(`process.title = ${JSON.stringify(title)}; ${threads(60)}`, options),
      ) as {
        online: number;
        failures: string[];
      }[];
      expect(many!.failures).toEqual(['ERR_WORKER_INIT_FAILED']);
      expect(many!.online).toBeGreaterThan(5);
      expect(many!.online).toBeLessThan(CHILD_LIMITS.nproc);
      // The host also counts threads of Node.js.
      const status = readFileSync(`/proc/${pidOfTitle(title)}/status`, 'utf8');
      const counted = Number(/^Threads:\s+(\d+)$/m.exec(status)![1]);
      expect(counted).toBeGreaterThan(many!.online);
      expect(counted).toBeLessThanOrEqual(CHILD_LIMITS.nproc);
    },
    60_000,
  );

  row(
    '26',
    async () => {
      const ends = [
        'process.exit(0)',
        'process.abort()',
        'fs.closeSync(3); await new Promise(() => {})',
        'for (const fd of [0, 1, 2, 3]) try { fs.closeSync(fd) } catch {} ; await new Promise(() => {})',
        `setTimeout(() => { throw new Error('uncaught') }, 0); await new Promise((resolve) => setTimeout(resolve, 50)); process.exit(1)`,
      ];
      for (const body of ends) {
        const outcome = await attackOnce(sandbox, body, { process: 'row26/1', timeoutMs: 8000 });
        expect(outcome).toMatchObject({ ok: false });
      }
    },
    60_000,
  );
});

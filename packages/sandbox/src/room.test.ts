import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { pidOfTitle } from './attacks/host-view.fixture.ts';
import type { Room } from './port.ts';
import { isStopped } from './processes.fixture.ts';
import { openSandbox, type TestSandbox, TIERS } from './sandbox.fixture.ts';

const MB = 1024 * 1024;

/** Room for so many bytes; for the rest after `empty`. */
function createRoom(bytes: number) {
  const emptied = Promise.withResolvers<void>();
  let arrived = 0;
  let kept = 0;
  let isFull = true;
  let isWaiting = false;
  return {
    add(count) {
      arrived += count;
    },
    keep() {
      kept += 1;
    },
    make(count) {
      if (!isFull || arrived + count <= bytes) return undefined;
      isWaiting = true;
      return emptied.promise;
    },
    isWaiting: () => isWaiting,
    arrived: () => arrived,
    kept: () => kept,
    empty() {
      isFull = false;
      emptied.resolve();
    },
  } satisfies Room & Record<string, unknown>;
}

const EMITTING = `export default { name: 'x', run(event) {
  for (let n = 0; n < 8; n++) this.$emit('x'.repeat(event.bytes));
} };`;

describe.each(TIERS)('code in tier %s', (tier) => {
  let sandbox: TestSandbox;
  beforeAll(async () => {
    sandbox = await openSandbox(tier);
  });
  afterAll(async () => {
    await sandbox[Symbol.asyncDispose]();
  });

  test('waits in its writes without room for its output, and loses nothing', async () => {
    const room = createRoom(2 * MB);
    const run = sandbox.runModule(EMITTING, { process: 'room/1', event: { bytes: MB }, room });
    await eventually(() => expect(room.isWaiting()).toBe(true));
    const behind = sandbox.runModule(EMITTING, { process: 'room/1', event: { bytes: 10 } });
    expect(room.arrived()).toBeLessThan(2.2 * MB);
    room.empty();
    const ended = await run;
    expect(ended).toMatchObject({ ok: true });
    expect(ended.emits.map(({ payload }) => payload.length)).toEqual(Array(8).fill(MB + 2));
    expect(room.arrived()).toBeGreaterThan(8 * MB);
    expect((await behind).emits).toHaveLength(8);
  });

  test.each([
    ['of the console', 'console.log(text)'],
    ['of stdout', "process.stdout.write(text + '\\n')"],
    ['of stderr', "process.stderr.write(text + '\\n')"],
  ])('holds no room for lines %s that are dropped', async (_where, print) => {
    const room = createRoom(100 * MB);
    const ended = await sandbox.run(
      `const print = (text) => ${print};
       for (let n = 0; n < 2000; n++) print('short');
       for (let n = 0; n < 500; n++) print('x'.repeat(16_000));
       // More than the kernel holds: the platform has read what was printed first.
       for (const stream of [process.stdout, process.stderr]) await new Promise((done) => stream.write('', done));`,
      { room },
    );
    expect(ended.logs.at(-1)?.msg).toBe('Further lines of this run were dropped.');
    expect(room.arrived()).toBeLessThan(0.3 * MB);
    expect(room.kept()).toBe(ended.logs.length - 1);
  });

  test('is stopped without room for its output, and then continues', async () => {
    const room = createRoom(MB);
    const title = `room-${tier}`;
    const code = EMITTING.replace('for (', `process.title = '${title}'; for (`);
    const run = sandbox.runModule(code, { process: 'room/3', event: { bytes: MB }, room });
    await eventually(() => expect(room.isWaiting()).toBe(true));
    await eventually(() => isStopped(pidOfTitle(title)));
    room.empty();
    const ended = await run;
    expect(ended).toMatchObject({ ok: true });
    expect(ended.emits).toHaveLength(8);
  });

  test('that waits for room is ended at its time limit', async () => {
    const run = { process: 'room/2', event: { bytes: MB }, room: createRoom(MB) };
    expect(await sandbox.runModule(EMITTING, { ...run, timeoutMs: 2_000 })).toMatchObject({
      ok: false,
      reason: 'timeout',
    });
    const next = { ...run, room: createRoom(100 * MB) };
    expect(await sandbox.runModule(EMITTING, next)).toMatchObject({ ok: true });
  });
});

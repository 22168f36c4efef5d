import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { forSuite } from '@wellspring/testing/lifetimes';
import { createRecorder, openSandbox, TIERS, values } from './sandbox.fixture.ts';

/** Code that writes to the frame descriptor. */
const FORGE = `import fs from 'node:fs';
const frame = (type, content, length) => {
  const body = Buffer.isBuffer(content) ? content : Buffer.from(JSON.stringify(content));
  const head = Buffer.alloc(5);
  head.writeUInt32LE(length ?? body.length + 1, 0);
  head[4] = type;
  return Buffer.concat([head, body]);
};
const emit = (payload, head = {}) => {
  const json = Buffer.from(JSON.stringify({ id: null, name: '', summary: null, ts: null, at: 1, delivery_ts: null, ...head }));
  const size = Buffer.alloc(4);
  size.writeUInt32LE(json.length, 0);
  return frame(11, Buffer.concat([size, json, Buffer.from(payload)]));
};
const write = (bytes) => {
  for (let at = 0; at < bytes.length; )
    try { at += fs.writeSync(3, bytes, at) } catch (error) { if (error.code !== 'EAGAIN') return; }
};
const forever = () => new Promise((resolve) => setTimeout(resolve, 60_000));
`;

const violation = { ok: false, reason: 'protocol' };

describe.each(TIERS)('frames that code forges in tier %s', (tier) => {
  const sandbox = forSuite(() => openSandbox(tier));
  const forge = (body: string, process?: string, event: unknown = {}) =>
    sandbox.runModule(
      `${FORGE} export default { name: 'x', props: { db: '$.service.db', http: { type: '$.interface.http', customResponse: true } },
        async run(event) { ${body} } }`,
      { event, ...(process === undefined ? {} : { process }) },
    );

  test('arrive if they are well formed, even byte by byte (positive control)', async () => {
    const outcome = await forge(
      `for (const byte of emit('{"forged":1}')) write(Buffer.of(byte)); await new Promise((r) => setTimeout(r, 50));`,
    );
    expect(outcome).toMatchObject({ ok: true });
    expect(values(outcome)).toEqual([{ forged: 1 }]);
  });

  test.each([
    ['garbage', `write(Buffer.alloc(1000, 0xab))`],
    ['a length of 0xFFFFFFFF', `write(frame(11, {}, 0xffffffff))`],
    ['a length of 0', `write(frame(11, {}, 0))`],
    ['an unknown type', `write(frame(99, {}))`],
    ['the type of a call', `write(frame(1, {}))`],
    [
      'an end with a million elements',
      `write(frame(16, { ok: true, definition: { a: Array(1e6).fill(1) } }))`,
    ],
    ['an end that is nested deeply', `write(frame(16, Buffer.from('['.repeat(1e5) + ']'.repeat(1e5))))`],
    ['an event that is nested deeply', `write(emit('['.repeat(1e6) + ']'.repeat(1e6)))`],
    ['an event that is not JSON', `write(emit('{"a":1},{"b":2}'))`],
    ['an event of 100 MB', `write(frame(11, Buffer.alloc(1e6), 100e6))`],
    ['a large event that is not JSON', `write(emit('"' + 'x'.repeat(3e6)))`],
    ['a response with status 99', `write(frame(14, { status: 99, headers: {}, body: '' }))`],
    ['a log line of a megabyte', `write(frame(13, { ts: 1, level: 'info', msg: 'x'.repeat(1e6) }))`],
  ])('with %s kill the process, and fail only that run', async (_name, attack) => {
    const process = 'attack/1';
    expect(await forge(`${attack}; await forever()`, process)).toMatchObject(violation);
    expect(values(await forge(`this.$emit('next')`, process))).toEqual(['next']);
  });

  test('are counted as they arrive: half a frame uses up the bytes of its run', async () => {
    const half = `for (let n = 0; n < 3; n++) { write(emit('"' + 'x'.repeat(5.9e6) + '"')); } write(emit('"' + 'x'.repeat(5.9e6)).subarray(0, 3e6));`;
    expect(await forge(`${half} await forever()`)).toMatchObject({
      ...violation,
      error: { message: expect.stringContaining('16 MB') },
    });
  });

  test('cannot act for other sources: fields that name one are ignored', async () => {
    const outcome = await forge(
      `write(emit('1', { source_id: 'dc_other', owner_id: 'u_other', run_id: 'run_other' }));
       write(frame(16, { ok: true, id: 1, source_id: 'dc_other', run_id: 'run_other', cpuMs: 0 })); await forever()`,
    );
    expect(outcome).toMatchObject({ ok: true });
    expect(Object.keys(outcome.emits[0]!).sort()).toEqual(
      ['at', 'delivery_ts', 'id', 'name', 'payload', 'summary', 'ts'].sort(),
    );
  });

  test('respond once: a second response, and one after the end, are dropped', async () => {
    const reply = (body: string) => `frame(14, { status: 200, headers: {}, body: '${body}' })`;
    const process = 'respond/1';
    const outcome = await forge(
      `write(${reply('Zmlyc3Q=')}); write(${reply('c2Vjb25k')}); setTimeout(() => write(${reply('bGF0ZQ==')}), 1)`,
      process,
    );
    expect(outcome.replies.map(({ body }) => body)).toEqual(['Zmlyc3Q=']);
    expect((await forge('', process)).replies).toEqual([]);
  });

  test('behind the end of a run belong to no run', async () => {
    const outcome = await forge(
      `write(Buffer.concat([emit('"before"'), frame(16, { ok: true }), emit('"behind"'),
         frame(13, { ts: 1, level: 'info', msg: 'behind' }), frame(15, { key: 'behind', json: '1' })])); await forever()`,
      'behind/1',
    );
    expect(values(outcome)).toEqual(['before']);
    // The frames behind the end were read before the next run, whose end would have been refused otherwise.
    expect(outcome).toMatchObject({ ok: true, db: {}, logs: [] });
  });

  test('with an additional end kill the process', async () => {
    const process = 'ends/1';
    const { idle } = sandbox.executor.stats();
    expect(
      await forge(`write(Buffer.concat([frame(16, { ok: true }), frame(16, { ok: true })]))`, process),
    ).toMatchObject({ ok: true });
    await eventually(() => expect(sandbox.executor.stats().idle).toBe(idle));
    expect(values(await forge(`this.$emit('next')`, process))).toEqual(['next']);
  });

  test('of a define call give no definition that violates the schema', async () => {
    const code = `${FORGE} write(frame(16, { ok: true, definition: { name: 'x', props: Array(1000).fill({}) } })); await forever();`;
    const { id, bundle } = await sandbox.packager.bundle({ code }, { ownerId: 'u_test' });
    const task = { bundleId: id, readBundle: async () => bundle, call: { kind: 'define' as const } };
    expect(await sandbox.executor.execute(task, createRecorder(), { timeoutMs: 20_000 })).toMatchObject(
      violation,
    );
  });
});

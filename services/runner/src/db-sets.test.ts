import { expect, test } from '@jest/globals';
import { LIMITS } from '@wellspring/contract/limits';
import { usePlatform } from './platform.fixture.ts';
import { deployWorkflow } from './workflow.fixture.ts';

const t = usePlatform();

/** Code that sends changes without those checks of `$service.db` that are made in its process. */
const FORGE = `import fs from 'node:fs';
const change = (key, json) => {
  const name = Buffer.from(JSON.stringify(key));
  const body = Buffer.concat([name, Buffer.from(json)]);
  const head = Buffer.alloc(9);
  head.writeUInt32LE(body.length + 5, 0);
  head[4] = 15;
  head.writeUInt32LE(name.length, 5);
  return Buffer.concat([head, body]);
};
const write = (bytes) => {
  for (let at = 0; at < bytes.length; )
    try { at += fs.writeSync(3, bytes, at) } catch (error) { if (error.code !== 'EAGAIN') throw error; }
};`;

test('refused changes are a hundred errors at most, which show no secret', async () => {
  const secret = 'sk-1f2e3d4c-of-the-key';
  const id = await t.deploy(
    `${FORGE} export default { name: 'Full', props: { key: { type: 'string', secret: true } }, run() {
      write(change('full', JSON.stringify('x'.repeat(${LIMITS.db - 100}))));
      write(Buffer.concat(Array(1000).fill(change(this.key + 'x'.repeat(100), '1'))));
    } };`,
    {},
    { key: secret },
  );
  await t.runToEnd(id, [1]);
  const errors = await t.events(id, '$errors');
  expect(errors).toHaveLength(100);
  expect(JSON.stringify(errors[0])).toContain('the key ********xxx');
  expect(JSON.stringify([errors, await t.logs(id)])).not.toContain(secret);
});

test('changes of all steps of a workflow are bounded together', async () => {
  const body = `for (let i = 0; i < ${LIMITS.dbSets * 0.6}; i++) this.db.set('n', i);`;
  const props = `db: '$.service.db'`;
  const { id, cells } = await deployWorkflow(t, { name: 'one', props, body }, { name: 'two', props, body });
  await t.runToEnd(id, [1]);
  expect(await t.events(id, '$errors')).toMatchObject([
    { error: { code: 'LimitError', msg: expect.stringContaining('50000 times'), cellId: cells[1] } },
  ]);
});

test('a commit does not rewrite the map or the dedupe state that its runs have not changed', async () => {
  const id = await t.deploy(`export default { name: 'Large', props: { db: '$.service.db' }, dedupe: 'unique',
    run({ fill, emit }) {
      if (fill) this.db.set('large', fill.repeat(50_000));
      if (emit) this.$emit(emit, { id: emit });
    } };`);
  await t.runToEnd(id, [{ fill: 'x', emit: 'a' }]);
  const written: string[][] = [];
  t.faults.commit = ({ state }) => {
    written.push(['db', 'dedupe'].filter((field) => field in state));
    return undefined;
  };
  for (const run of [{}, { emit: 'b' }, { emit: 'b' }, { fill: 'y' }]) await t.runToEnd(id, [run]);
  expect(written).toEqual([[], ['dedupe'], [], ['db']]);
});

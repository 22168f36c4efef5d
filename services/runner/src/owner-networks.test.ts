import { expect, test } from '@jest/globals';
import { orgs } from '@wellspring/store/collections/users';
import { eventually } from '@wellspring/testing/eventually';
import { startHttpServer } from '@wellspring/testing/http';
import { orgRow } from '@wellspring/testing/rows';
import { usePlatform } from './platform.fixture.ts';

const t = usePlatform();

test('only the code of an organization reaches its networks, within seconds of a change', async () => {
  await using server = await startHttpServer(() => {});
  await t.store.collection(orgs).insert(orgRow('o_0000000001'));
  const code = `import net from 'node:net'; export default { name: 'x', async run() {
    this.$emit(await new Promise((resolve) => net.connect(${server.port}, '127.0.0.1', () => resolve('connected'))
      .on('error', ({ code }) => resolve(code)))) } }`;
  const [own, foreign] = [await t.deploy(code, { owner_id: 'o_0000000001' }), await t.deploy(code)];
  const run = async (source: string) => {
    await t.runToEnd(source, [{}]);
    return (await t.events(source)).at(-1);
  };
  expect([await run(own), await run(foreign)]).toEqual(['EACCES', 'EACCES']);
  await t.store.collection(orgs).patch('o_0000000001', { code_allow_networks: ['127.0.0.1/32'] });
  await eventually(async () => (await run(own)) === 'connected', { every: 100 });
  expect(await run(foreign)).toBe('EACCES');
  await t.store.collection(orgs).patch('o_0000000001', { code_allow_networks: [] });
  await eventually(async () => (await run(own)) === 'EACCES', { every: 100 });
});

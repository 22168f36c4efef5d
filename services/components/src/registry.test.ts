import { describe, expect, test } from '@jest/globals';
import { components } from '@wellspring/store/collections/components';
import { BOB } from '@wellspring/testing/service-harness';
import { keyed, OPERATOR, refusal, useBed } from './bed.fixture.ts';

const { bed, post, get } = useBed();
const publish = (component_code: string) => bed.invoke('operatorPublish', {}, { component_code }, OPERATOR);

describe('the registry', () => {
  const registry = (key: string) => bed.invoke('getRegistryComponent', { key }, {});

  test('gives the newest version, or the one that is named, to everybody', async () => {
    for (const version of ['0.0.2', '0.0.10', '0.0.9', '0.1.0-beta.1'])
      await publish(keyed('app-new', version));
    expect((await registry('app-new')).version).toBe('0.0.10');
    expect((await registry('app-new@0.0.9')).version).toBe('0.0.9');
    expect((await get('app-new', {}, BOB)).version).toBe('0.0.10');
    const { id } = await registry('app-new@0.1.0-beta.1');
    expect(await bed.resolve({ key: 'app-new@0.1.0-beta.1', owner_id: 'u_0000000002' })).toBe(id);
    expect(await bed.resolve({ component_id: id, reader_ids: ['u_0000000002'] })).toBe(id);
    await expect(registry('app-none')).rejects.toMatchObject(refusal(404));
  });

  test('is searched after the components of the caller', async () => {
    await publish(keyed('app-own', '9.0.0'));
    const own = await post(keyed('app-own', '0.0.1', 'Own'));
    expect(await bed.resolve({ key: 'app-own' })).toBe(own.id);
    expect((await get('app-own', {}, BOB)).version).toBe('9.0.0');
    // A version that only the registry has is still there.
    expect((await get('app-own@9.0.0')).version).toBe('9.0.0');
  });

  test('takes a version once, with a key and by the rules', async () => {
    await publish(keyed('app-x', '1.0.0'));
    await expect(publish(keyed('app-x', '1.0.0'))).rejects.toMatchObject(refusal(409));
    await expect(publish(keyed('app-x', '1.0.0', 'Other'))).rejects.toMatchObject(refusal(409));
    for (const version of ['latest', '1', '1.0', ''])
      await expect(publish(keyed('app-x', version))).rejects.toMatchObject(refusal(400, 'component_code'));
    await expect(publish(keyed(null, '1.0.0'))).rejects.toMatchObject(refusal(400, 'component_code'));
    await expect(publish(keyed('test', '1.0.0'))).rejects.toMatchObject(refusal(400, 'component_code'));
    const racing = Array.from({ length: 5 }, (_, i) => publish(keyed('app-x', '2.0.0', `Racer ${i}`)));
    const results = await Promise.allSettled(racing);
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  test('finds the newest version in a range, own versions before those of the registry', async () => {
    for (const version of ['1.0.0', '1.2.0', '1.1.9', '2.0.0']) await publish(keyed('app-range', version));
    expect((await registry('app-range@^1.0.0')).version).toBe('1.2.0');
    expect((await registry('app-range@~1.1')).version).toBe('1.1.9');
    expect((await get('app-range@1', {}, BOB)).version).toBe('1.2.0');
    const own = await post(keyed('app-range', '1.0.5', 'Own'));
    await post(keyed('app-range', 'newest', 'No version'));
    expect(await bed.resolve({ key: 'app-range@^1' })).toBe(own.id);
    expect((await get('app-range@^2')).version).toBe('2.0.0');
    for (const none of ['app-range@^3', 'app-range@', 'app-range@no range'])
      await expect(registry(none)).rejects.toMatchObject(refusal(404));
  });

  test('takes a component with its modules; the list tells what is published', async () => {
    const folder = (more: Record<string, unknown>) =>
      bed.invoke(
        'operatorPublish',
        {},
        { component_code: keyed('app-folder', '1.0.0'), component_path: 'app/sources/new/new.mjs', ...more },
        OPERATOR,
      );
    const modules = { 'app/app.app.mjs': 'export default 1', 'app/größe 1.mjs': '' };
    const { id } = await folder({
      modules,
      imports: { '@x/app': 'app/app.app.mjs' },
      dependencies: { a: '^1' },
    });
    expect(bed.prepared.at(-1)).toMatchObject({
      url: 'folder:///app/sources/new/new.mjs',
      modules: { 'folder:///app/app.app.mjs': 'export default 1' },
      imports: { '@x/app': 'folder:///app/app.app.mjs' },
      dependencies: { a: '^1' },
    });
    const [row] = await bed.invoke<{ content_hash: string }[]>('operatorListRegistry', {}, {}, OPERATOR);
    expect(row!.content_hash).toBe((await bed.store.collection(components).get(id))!.content_hash);
    await expect(folder({ modules: {} })).rejects.toMatchObject(refusal(409));
  });

  test.each([
    ['component_path', '/etc/passwd'],
    ['component_path', '../new.mjs'],
    ['component_path', 'a//b.mjs'],
    ['component_path', 'a/b.mjs?c'],
    ['component_path', 'C:\\\\new.mjs'],
    ['component_path', ''],
    ['modules', { 'a/../b.mjs': '' }],
    ['imports', { a: 'not/a/module.mjs' }],
    ['dependencies', { a: 'file:../a' }],
    ['modules', Object.fromEntries(Array.from({ length: 1001 }, (_, n) => [`${n}.mjs`, '']))],
  ])('refuses %s %j', async (param, value) => {
    await expect(
      bed.invoke(
        'operatorPublish',
        {},
        { component_code: keyed('app-bad', '1.0.0'), [param]: value },
        OPERATOR,
      ),
    ).rejects.toMatchObject(refusal(400, param));
  });

  test('unpublished versions are gone from the registry; sources that run them keep them', async () => {
    const { id } = await publish(keyed('app-gone', '1.0.0'));
    await publish(keyed('app-gone', '0.9.0'));
    const list = () =>
      bed.invoke<{ key: string; version: string }[]>('operatorListRegistry', {}, {}, OPERATOR);
    expect((await list()).map(({ version }) => version).sort()).toEqual(['0.9.0', '1.0.0']);
    const unpublish = () =>
      bed.invoke('operatorUnpublish', { key: 'app-gone', version: '1.0.0' }, {}, OPERATOR);
    await unpublish();
    await expect(unpublish()).rejects.toMatchObject(refusal(404));
    expect((await registry('app-gone')).version).toBe('0.9.0');
    for (const gone of [{ key: 'app-gone@1.0.0' }, { component_id: id }])
      await expect(bed.resolve(gone)).rejects.toMatchObject(refusal(404));
    expect(await bed.store.collection(components).get(id)).toBeDefined();
  });
});

import { expect, test } from '@jest/globals';
import { CALLS, type PrepareCall } from '@wellspring/contract/calls';
import { systemClock } from '@wellspring/core/clock';
import { invalidComponent } from '@wellspring/core/problem';
import { bundles, REGISTRY } from '@wellspring/store/collections/components';
import { unpackText } from '@wellspring/store/packed-text';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach } from '@wellspring/testing/lifetimes';
import { openPorts } from '@wellspring/testing/service-harness';
import { createLibrary } from './save.ts';

const closing = closeAfterEach();

/** A library, and a runner that answers with the code as its bundle. @param evaluate called for the definition, if any */
function openLibrary(evaluate: (message: PrepareCall['message']) => Promise<unknown> = async () => {}) {
  const ports = closing(openPorts());
  const evaluated: string[] = [];
  ports.call.serve(
    CALLS.prepare,
    async (message: PrepareCall['message']): Promise<PrepareCall['answer']> => {
      evaluated.push(`${message.owner_id} ${message.code.slice(0, 10)}`);
      const definition = ((await evaluate(message)) ?? {}) as PrepareCall['answer']['definition'];
      const bundle = { format: 'esm', code: message.code, packages: {}, lockfile: null } as const;
      return { bundle_id: 'b', bundle, definition };
    },
    new AbortController().signal,
  );
  return { library: createLibrary({ ...ports, clock: systemClock }), evaluated, store: ports.store };
}

test('an owner neither waits for the compilation of another one nor gets its failure', async () => {
  const held = Promise.withResolvers<void>();
  const { library, evaluated } = openLibrary(async ({ owner_id }) => {
    if (owner_id === 'u_slow') await held.promise;
  });
  const slow = library.compile({ code: 'a' }, 'u_slow').catch((error: unknown) => error);
  await eventually(() => evaluated.length === 1);
  expect(await library.compile({ code: 'a' }, 'u_other')).toMatchObject({ bundle: { code: 'a' } });
  held.reject(invalidComponent('The time is up.'));
  expect(await slow).toMatchObject({ status: 400 });
});

test('code that was compiled is compiled once for all owners', async () => {
  const { library, evaluated } = openLibrary();
  await Promise.all([library.compile({ code: 'a' }, 'u_1'), library.compile({ code: 'a' }, 'u_1')]);
  await library.compile({ code: 'a' }, 'u_2');
  expect(evaluated).toEqual(['u_1 a']);
});

test('compiled code takes bounded memory: the oldest is forgotten', async () => {
  const { library, evaluated } = openLibrary();
  for (const code of ['a', 'b', 'c', 'c', 'a'])
    await library.compile({ code: code.padEnd(12_000_000) }, 'u_1');
  expect(evaluated.map((one) => one.trim())).toEqual(['u_1 a', 'u_1 b', 'u_1 c', 'u_1 a']);
});

test('a definition counts the memory that its values take', async () => {
  const props = Array.from({ length: 600_000 }, () => []);
  const { library, evaluated } = openLibrary(async () => ({ props }));
  for (const code of ['a', 'b', 'c', 'c', 'a']) await library.compile({ code }, 'u_1');
  expect(evaluated).toEqual(['u_1 a', 'u_1 b', 'u_1 c', 'u_1 a']);
});

test('long code and its bundle are stored compressed, and read unchanged', async () => {
  const { library, store } = openLibrary(async () => ({ key: null }));
  const code = `// ${'long '.repeat(100_000)}`;
  const saved = await library.save(REGISTRY, await library.prepare({ code }, REGISTRY), null);
  const bundle = (await store.collection(bundles).get(saved.bundle_id))!;
  expect(saved.code.length + bundle.content.length).toBeLessThan(2_000);
  expect(await unpackText(saved.code)).toBe(code);
  expect(JSON.parse(await unpackText(bundle.content))).toMatchObject({ code });
});

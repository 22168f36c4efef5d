import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { createByteBudget } from '@wellspring/core/byte-budget';
import type { Deployed } from './catalog.ts';
import { openDeployment } from './open-deployment.ts';

/** A catalog whose sources have the size and owner in their id, `40/alice`, unless the test says otherwise. */
function useCatalog(total: number) {
  const loaded: string[] = [];
  const found = new Map<string, number | Error | undefined>();
  const memory = createByteBudget(total);
  const stop = new AbortController();
  const load = async (id: string) => {
    loaded.push(id);
    const [size, owner_id] = id.split('/');
    const own = found.has(id) ? found.get(id) : Number(size);
    if (own instanceof Error) throw own;
    return own === undefined
      ? undefined
      : ({ emitter: { id, owner_id }, deployment: { id: 'd_1', size: own } } as unknown as Deployed);
  };
  const open = (id: string) => openDeployment({ catalog: { load }, memory }, id, { signal: stop.signal });
  return { found, loaded, memory, open, stop };
}

test('without memory for it, a deployment waits, and is loaded again when there is some', async () => {
  const { loaded, memory, open } = useCatalog(100);
  const first = await open('15/alice');
  const others = memory.tryTake(75)!;
  const waiting = open('20/carol');
  await nextTurn();
  expect(loaded.splice(0)).toEqual(['15/alice', '20/carol']);
  expect(memory.used).toBe(90);
  first![Symbol.dispose]();
  expect((await waiting)!.deployed.emitter.id).toBe('20/carol');
  expect(loaded).toEqual(['20/carol']);
  expect(memory.used).toBe(95);
  others();
  (await waiting)![Symbol.dispose]();
  expect(memory.used).toBe(0);
});

test('large deployments that are in use, or wait, leave room for others', async () => {
  const { memory, open } = useCatalog(100);
  const used = [await open('300/alice'), await open('300/alice'), await open('5/bob')];
  expect(memory.used).toBe(55);
  const waiting = open('300/alice');
  used.push(await open('300/carol'));
  for (let n = 0; n < 300; n += 1) (await open('10/dave'))![Symbol.dispose]();
  expect(memory.used).toBe(80);
  for (const one of used) one![Symbol.dispose]();
  (await waiting)![Symbol.dispose]();
  expect(memory.used).toBe(0);
});

test.each<[string, number | Error | undefined, number]>([
  ['was deleted', undefined, 0],
  ['cannot be read', new Error('unreadable'), 0],
  ['has become smaller', 10, 10],
  ['has become larger', 25, 25],
])('a source that %s while it waited holds no more than it has', async (_what, now, used) => {
  const { found, memory, open } = useCatalog(100);
  const taken = memory.tryTake(90)!;
  const waiting = open('20/bob');
  await nextTurn();
  found.set('20/bob', now);
  taken();
  if (now instanceof Error) await expect(waiting).rejects.toBe(now);
  else expect((await waiting)?.deployed.deployment.size).toBe(now);
  expect(memory.used).toBe(used);
});

test('nothing is held by one that is given up while it waits', async () => {
  const { memory, open, stop } = useCatalog(100);
  const taken = memory.tryTake(90)!;
  const waiting = open('20/bob');
  await nextTurn();
  stop.abort(new Error('stopped'));
  await expect(waiting).rejects.toThrow('stopped');
  taken();
  expect(memory.used).toBe(0);
});

test('a small deployment is loaded even if others hold all memory', async () => {
  const { memory, open } = useCatalog(1024);
  memory.tryTake(2000);
  expect((await open('3/alice'))!.deployed.deployment.size).toBe(3);
  expect(memory.used).toBe(2000);
});

import { expect, test } from '@jest/globals';
import { createByteBudget } from '@wellspring/core/byte-budget';
import type { SourceState } from './source-state.ts';
import { createSourceStates } from './source-states.ts';

/** States of 10 bytes each, unless the test says otherwise. */
function open(total: number) {
  const created: string[] = [];
  const retired: string[] = [];
  const sizes = new Map<string, number>();
  const memory = createByteBudget(total);
  const states = createSourceStates({ retire: (prefix) => void retired.push(prefix) }, memory, (id) => {
    created.push(id);
    const state: Partial<SourceState> = { bytes: () => sizes.get(id) ?? 10, forget: async () => {} };
    return state as SourceState;
  });
  const use = (...ids: string[]) => {
    for (const id of ids) states.use(id, 'd_1')[Symbol.dispose]();
  };
  return { created, memory, retired, sizes, states, use };
}

test('beyond their memory, the states that were used least recently are dropped', () => {
  const { created, memory, use } = open(30);
  use('a', 'b', 'c', 'a', 'd');
  expect(created.splice(0)).toEqual(['a', 'b', 'c', 'd']);
  expect(memory.used).toBe(30);
  use('a', 'c', 'd');
  expect(created).toEqual([]);
  use('b', 'a');
  expect(created).toEqual(['b', 'a']);
});

test('a state that has grown takes the place of several', () => {
  const { created, memory, sizes, use } = open(100);
  use(...'abcdefghi');
  sizes.set('i', 45);
  use('i');
  expect(memory.used).toBe(95);
  created.length = 0;
  use(...'defghi');
  expect(created).toEqual([]);
  use('c');
  expect(created).toEqual(['c']);
});

test('a state in use stays, however many others are used meanwhile', () => {
  const { created, states, use } = open(10);
  {
    using _used = states.use('a', 'd_1');
    {
      using _again = states.use('a', 'd_1');
      use('b', 'c');
    }
    use('b', 'c', 'a');
  }
  use('a');
  expect(created.filter((id) => id === 'a')).toEqual(['a']);
});

test('a state that was forgotten while it was used is not kept', async () => {
  const { created, memory, states, use } = open(100);
  {
    using _used = states.use('a', 'd_1');
    await states.forget('a');
  }
  expect(memory.used).toBe(0);
  use('a', 'b');
  await states.forget('b');
  expect(memory.used).toBe(10);
  expect(created).toEqual(['a', 'a', 'b']);
});

test('the processes of a former deployment are retired once', () => {
  const { retired, states } = open(100);
  for (const deployment of ['d_1', 'd_2', 'd_2']) {
    using used = states.use('a', 'd_1');
    used.switchTo(deployment);
  }
  expect(retired).toEqual(['a/d_1/run']);
});

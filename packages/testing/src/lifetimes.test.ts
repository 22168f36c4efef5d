import { describe, expect, test } from '@jest/globals';
import { closeAfterEach, forEachTest, forSuite } from './lifetimes.ts';

/** Tests run in the order of this file: each looks at what the former has closed. */
const closed: string[] = [];
const one = (name: string) => ({ name, close: () => void closed.push(name) });

describe('lifetimes', () => {
  describe('of a suite', () => {
    const outer = forSuite(() => one('outer'));
    describe('within', () => {
      const first = forSuite(() => one('first'));
      forSuite(() => one(`after ${first.name}`));
      forEachTest(() => one('of a test'));
      forEachTest(() => one('of a test, later'));
      const use = closeAfterEach();
      test('begin before the test', () => {
        use(one('used'));
        use(one('used later'));
        expect([outer.name, first.name]).toEqual(['outer', 'first']);
        expect(closed).toEqual([]);
      });
    });
  });
  test('end after it, the latest first', () => {
    expect(closed).toEqual([
      ...['of a test, later', 'of a test', 'used later', 'used'],
      ...['after first', 'first', 'outer'],
    ]);
  });
});
